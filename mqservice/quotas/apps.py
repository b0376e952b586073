"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "mqservice.quotas"
    default_auto_field = "django.db.models.BigAutoField"
