"""What the service's own Django commands share."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError

# SQLSTATEs that the command is not to blame for: connections, resources, locks, shutdown, timeouts.
_BUSY_STATES: Final = ("08", "53", "55P03", "57")


class ServiceCommand(BaseCommand):
    """A command that begins at once: Django's checks of the project import every page, which takes
    two seconds, longer than most of these commands need. ``make test`` runs the checks.
    """

    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:  # Any: Django's own signature
        """Raises CommandError where PostgreSQL is away or too busy: one line, and no traceback."""
        try:
            return super().execute(*args, **options)
        except (OperationalError, InterfaceError) as exc:
            state = getattr(exc.__cause__, "sqlstate", None)
            if state is not None and not state.startswith(_BUSY_STATES):
                raise
            words = " ".join(str(exc).split())
            raise CommandError(f"cannot use PostgreSQL now: {words}") from exc
