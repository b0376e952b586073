"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class IssuesConfig(AppConfig):
    name = "mqservice.issues"
    default_auto_field = "django.db.models.BigAutoField"
