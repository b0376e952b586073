"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class SearchesConfig(AppConfig):
    name = "mqservice.searches"
    default_auto_field = "django.db.models.BigAutoField"
