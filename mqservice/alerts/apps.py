"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "mqservice.alerts"
    default_auto_field = "django.db.models.BigAutoField"
