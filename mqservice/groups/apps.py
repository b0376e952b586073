"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class GroupsConfig(AppConfig):
    name = "mqservice.groups"
    default_auto_field = "django.db.models.BigAutoField"
