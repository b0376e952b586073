"""Registers the app with Django, and its say in what a session may do on a socket."""

from __future__ import annotations

from django.apps import AppConfig


class MaskingConfig(AppConfig):
    name = "mqservice.masking"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from mqservice.accounts.ticket_holders import person_limits
        from mqservice.masking.people import without_hidden

        if without_hidden not in person_limits:
            person_limits.append(without_hidden)
