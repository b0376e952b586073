"""Registers the app with Django, and the audit with what allauth tells."""

from __future__ import annotations

from django.apps import AppConfig


class PeopleConfig(AppConfig):
    name = "mqservice.people"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from mqservice.people import auditing

        auditing.connect()
