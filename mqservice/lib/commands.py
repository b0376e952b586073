"""What the service's own Django commands share."""

from __future__ import annotations

from django.core.management.base import BaseCommand


class ServiceCommand(BaseCommand):
    """A command that begins at once: Django's checks of the project import every page, which takes
    two seconds, longer than most of these commands need. ``make test`` runs the checks.
    """

    requires_system_checks = ()
