"""A beat as a process of its own that notes, instead of sending, when it leads; run by the tests.

    python -m tests.mqservice.beating FILE IDLE_MS

Each line of FILE: milliseconds of the machine's monotonic clock, and what happened: ``ready``,
``asked`` (for the lock, in vain) or ``sent``. After IDLE_MS of silence its session is ended.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import django
from celery import Celery
from celery.beat import Service


def main(path: str, idle_ms: str) -> None:
    django.setup()
    from mqservice import leader_lock
    from mqservice.scheduler import LeaderScheduler

    usual = f"={leader_lock.IDLE_MS_MAX}"
    leader_lock._SESSION_OPTIONS = leader_lock._SESSION_OPTIONS.replace(usual, f"={idle_ms}")  # type: ignore[misc]  # final

    with open(path, "a", buffering=1) as notes:

        def note(what: str) -> None:
            notes.write(f"{time.monotonic_ns() // 1_000_000} {what}\n")

        class Noting(LeaderScheduler):
            def tick(self, *args: Any, **kwargs: Any) -> float:  # Any: Celery's
                wait_s = super().tick(*args, **kwargs)
                if not self.lock.is_held:
                    note("asked")
                return wait_s

            def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> None:  # Any: Celery's
                note("sent")

        app = Celery("test", broker="memory://")
        app.conf.update(
            beat_schedule={"tick": {"task": "tick", "schedule": 0.05}},
            result_expires=None,
            beat_max_loop_interval=1,
        )
        service = Service(app, scheduler_cls=Noting)
        note("ready")
        service.start(embedded_process=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
