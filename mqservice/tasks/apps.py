"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "mqservice.tasks"
    default_auto_field = "django.db.models.BigAutoField"
