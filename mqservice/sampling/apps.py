"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class SamplingConfig(AppConfig):
    name = "mqservice.sampling"
    default_auto_field = "django.db.models.BigAutoField"
