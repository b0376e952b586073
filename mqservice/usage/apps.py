"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "mqservice.usage"
    default_auto_field = "django.db.models.BigAutoField"
