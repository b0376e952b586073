"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "mqservice.console"
    default_auto_field = "django.db.models.BigAutoField"
