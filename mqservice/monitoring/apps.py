"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "mqservice.monitoring"
    default_auto_field = "django.db.models.BigAutoField"
