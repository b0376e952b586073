"""Who has access to the operator console: ``manage.py operator NAME [--revoke]``.

A user ──▶ is_superuser ──▶ ``/console/-/operator``, and nothing of any tenant
"""

from __future__ import annotations

import logging
from typing import Any

from django.core.management.base import CommandError, CommandParser

from mqservice.accounts.models import User
from mqservice.lib.commands import ServiceCommand

log = logging.getLogger(__name__)


class Command(ServiceCommand):
    help = "Give a user access to the operator console, or remove it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--revoke", action="store_true", help="Remove access.")

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        username, is_operator = options["username"], not options["revoke"]
        if not User.objects.filter(username=username).update(is_superuser=is_operator):
            raise CommandError(f"user {username} does not exist")
        log.info(
            "Changed whether a user is an operator",
            extra={"action": "operator_changed", "user": username, "is_operator": is_operator},
        )
        self.stdout.write(f"{username} is {('now' if is_operator else 'no longer')} an operator")
