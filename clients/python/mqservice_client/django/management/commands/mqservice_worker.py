"""``manage.py mqservice_worker``: runs tasks until it gets SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ....errors import MQError, UsageError
from ....values import milliseconds
from ...backend import TaskBackend
from ...compat import task_backends
from ...worker import Worker


class Command(BaseCommand):
    help = (
        "Runs tasks. SIGTERM and SIGINT end it: it takes no more, waits for what runs, and gives "
        "the rest back."
    )
    requires_migrations_checks = True

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="alias in TASKS (default)")
        parser.add_argument(
            "--queue-name", action="append", dest="queue_names", metavar="NAME",
            help="run tasks of this queue; may be repeated; by default of all in QUEUES",
        )  # fmt: skip
        parser.add_argument(
            "--concurrency", type=int, default=4, help="how many tasks run at a time (4)"
        )
        parser.add_argument(
            "--drain-timeout", default="30s", help="how long to wait for running tasks (30s)"
        )
        parser.add_argument(
            "--burst", action="store_true", help="run what is waiting, then end by itself"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # Any: as BaseCommand has it
        backend = task_backends[options["backend"]]
        if not isinstance(backend, TaskBackend):
            raise CommandError(
                f"TASKS[{options['backend']!r}] is no mqservice_client.django.TaskBackend"
            )
        names = options["queue_names"] or sorted(backend.queues)
        if unknown := set(names) - backend.queues:
            raise CommandError(
                f"TASKS[{options['backend']!r}] has no queue {', '.join(sorted(unknown))}; its "
                f"QUEUES are {', '.join(sorted(backend.queues))}"
            )
        if options["concurrency"] < 1:
            raise CommandError("--concurrency must be at least 1")
        try:
            drain_timeout_s = milliseconds(options["drain_timeout"], "--drain-timeout") / 1000
            asyncio.run(self._run(backend, names, options, drain_timeout_s))
        except UsageError as exc:
            raise CommandError(str(exc)) from exc
        except MQError as exc:
            raise CommandError(f"{exc}. {exc.what_to_do}".strip()) from exc

    async def _run(
        self, backend: TaskBackend, names: list[str], options: dict[str, Any], drain_s: float
    ) -> None:
        worker = Worker(
            backend,
            names,
            concurrency=options["concurrency"],
            drain_timeout_s=drain_s,
            is_burst=options["burst"],
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        self.stdout.write(f"Running tasks of {', '.join(names)} as {worker.worker_id}")
        await worker.run()
        self.stdout.write(f"Stopped after {worker.finished_count} tasks")
