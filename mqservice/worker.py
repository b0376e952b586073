"""``python -m mqservice.worker``: all background work of a small installation in one process.

    beat (a thread) ──▶ Valkey ──▶ worker threads, all queues ──▶ one service call each

``mqservice up`` runs this. Larger installations run workers by duty and beat as processes of their
own (``mqservice up --workers``, the container commands): there a task that runs too long is ended,
which threads cannot be. Here each wait on a server has its own limit instead (PostgreSQL's
statement_timeout, the time limits of the engine's and of mail clients).
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any, Final

from celery import signals
from celery.beat import Service

from mqservice.celery import QUEUES, app
from mqservice.store import keep_clients

# One may make a report for hours, and the others are short: ticks never wait for long.
THREAD_COUNT: Final = 6

log = logging.getLogger(__name__)


class BeatThread(threading.Thread):
    """Beat's loop. Should it ever end by itself, the process ends too, to be started again."""

    def __init__(self) -> None:
        super().__init__(name="beat", daemon=True)
        self._service = Service(app, scheduler_cls=app.conf.beat_scheduler)
        self._is_stopping = False

    def run(self) -> None:
        app.set_current()
        try:
            self._service.start()
        except Exception:
            log.exception(
                "The scheduler failed with an unexpected error",
                extra={"action": "scheduler_failed"},
            )
        if not self._is_stopping:
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        """Send nothing more. Does not wait: what is under way ends within a second."""
        self._is_stopping = True
        self._service.stop()


def main() -> None:
    """Work until SIGTERM; tasks that run are waited for."""
    beat = BeatThread()

    def start_beat(**kwargs: Any) -> None:  # Any: the signal's own signature
        beat.start()

    def stop_beat(**kwargs: Any) -> None:  # Any: as above
        beat.stop()

    def stay_connected(**kwargs: Any) -> None:  # Any: as above
        keep_clients()

    signals.task_prerun.connect(stay_connected)  # in the thread that runs it, which stays
    signals.worker_ready.connect(start_beat)  # ticks begin once somebody takes them
    signals.worker_shutting_down.connect(stop_beat)
    logging.getLogger("mqservice.scheduler").setLevel(logging.WARNING)  # the only one always leads
    app.worker_main(
        [
            "--quiet",  # no banner
            "worker",
            "--pool=threads",
            f"--concurrency={THREAD_COUNT}",
            f"--queues={','.join(QUEUES)}",
            "--hostname=worker@%h",
            "--without-mingle",
            "--without-gossip",
            "--without-heartbeat",
            "--loglevel=WARNING",  # beat sends several tasks a second; only trouble is news
        ]
    )


if __name__ == "__main__":
    main()
