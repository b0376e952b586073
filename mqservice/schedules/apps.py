"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "mqservice.schedules"
    default_auto_field = "django.db.models.BigAutoField"
