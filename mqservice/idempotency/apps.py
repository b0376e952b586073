"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class IdempotencyConfig(AppConfig):
    name = "mqservice.idempotency"
    default_auto_field = "django.db.models.BigAutoField"
