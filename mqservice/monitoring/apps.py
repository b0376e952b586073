"""Registers the app with Django."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate

from mqservice.lib.restore_stamp import FORGET


class MonitoringConfig(AppConfig):
    name = "mqservice.monitoring"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(_forget_restore, sender=self)


def _forget_restore(using: str, **kwargs: Any) -> None:  # Any: the signal's own signature
    with connections[using].cursor() as cursor:
        cursor.execute(FORGET)
