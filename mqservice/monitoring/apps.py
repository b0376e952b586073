"""Registers the app with Django, and what happens before and after each ``migrate``."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.management.base import CommandError
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate, pre_migrate

from mqservice.lib.known_migrations import version_problem
from mqservice.lib.restore_stamp import FORGET


class MonitoringConfig(AppConfig):
    name = "mqservice.monitoring"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        pre_migrate.connect(_refuse_other_version, sender=self)
        post_migrate.connect(_forget_restore, sender=self)


def _refuse_other_version(using: str, **kwargs: Any) -> None:  # Any: the signal's own signature
    problem = version_problem(MigrationRecorder(connections[using]).applied_migrations())
    if problem:
        raise CommandError(problem)


def _forget_restore(using: str, **kwargs: Any) -> None:  # Any: the signal's own signature
    with connections[using].cursor() as cursor:
        cursor.execute(FORGET)
