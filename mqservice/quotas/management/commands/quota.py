"""Sets limits for the operator: ``manage.py quota [--tenant acme] [topic_count_max=50 ...]``.

Without a tenant it speaks of the default of all tenants; without limits it only shows. ``name=-``
takes a word back. Prints what holds afterwards as one JSON line.
"""

from __future__ import annotations

from typing import Any

import msgspec
from django.core.management.base import CommandError, CommandParser

from mqservice.accounts.models import Tenant
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.problem import Problem
from mqservice.quotas.limits import LIMIT_NAMES, effective
from mqservice.quotas.models import Source
from mqservice.quotas.queries import find_row, limits_of
from mqservice.quotas.services import put_limits


class Command(ServiceCommand):
    help = "Show or set the limits of a tenant, or the default of all tenants."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--tenant", help="Name of the tenant; without it, the default of all tenants."
        )
        parser.add_argument("limits", nargs="*", metavar="NAME=NUMBER", help=", ".join(LIMIT_NAMES))

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        tenant = None
        if options["tenant"] is not None:
            tenant = Tenant.objects.filter(name=options["tenant"]).first()
            if tenant is None:
                raise CommandError(f"tenant {options['tenant']} does not exist")
        values = dict(_parsed(text) for text in options["limits"])
        if values:
            try:
                put_limits(None, tenant, Source.OPERATOR, values)
            except Problem as exc:
                faults = "; ".join(f"{item.pointer[1:]}: {item.detail}" for item in exc.errors)
                raise CommandError(f"{exc.detail}: {faults}") from exc
        if tenant is not None:
            limits = limits_of(tenant.pk)
        else:
            row = find_row(None, Source.OPERATOR)
            limits = effective({} if row is None else row.limits, {}, {})
        self.stdout.write(msgspec.json.encode(limits).decode())


def _parsed(text: str) -> tuple[str, int | None]:
    name, _, number = text.partition("=")
    if number == "-":
        return name, None
    if not (number.isascii() and number.isdecimal()):
        raise CommandError(f"{text} must have the form NAME=NUMBER, or NAME=- to remove the limit")
    return name, int(number)
