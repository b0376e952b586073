"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class TopicsConfig(AppConfig):
    name = "mqservice.topics"
    default_auto_field = "django.db.models.BigAutoField"
