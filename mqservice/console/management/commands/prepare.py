"""Run by ``mqservice up`` before the web processes: migrates the tables and creates the demo
tenant.

    stdin: a line ──▶ migrate, if anything is missing ──▶ "tables"
           another, once the engine serves ──▶ bootstrap_demo ──▶ facts

It waits for the first line so that Django loads while the databases and the engine start. The end
of its input means that nobody waits for it any more.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from mqservice.console.management.commands import bootstrap_demo  # noqa: F401  # loaded while waiting
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.restore_stamp import FORGET

log = logging.getLogger(__name__)

TABLES_READY: Final = "tables"


class Command(ServiceCommand):
    help = "After a line on stdin bring the tables to this version, after another make the demo."

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        _await_line()
        make_tables()
        self.stdout.write(TABLES_READY)
        self.stdout.flush()
        _await_line()
        call_command("bootstrap_demo", stdout=self.stdout)


def _await_line() -> None:
    if not sys.stdin.readline():
        raise CommandError("the input ended before the line to begin")


def make_tables() -> None:
    """Run ``migrate`` unless all migrations are applied: it takes a second to find nothing to do.

    What ``migrate`` does besides is done either way: a restore's stamp is removed.
    """
    executor = MigrationExecutor(connection)
    if missing := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        log.info(
            "Migrating the database",
            extra={"action": "migrate", "migration_count": len(missing)},
        )
        call_command("migrate", interactive=False, verbosity=0)
        return
    with connection.cursor() as cursor:
        cursor.execute(FORGET)
