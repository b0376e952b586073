"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class TopicSchemasConfig(AppConfig):
    name = "mqservice.topic_schemas"
    default_auto_field = "django.db.models.BigAutoField"
