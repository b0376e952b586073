"""A beat as a process of its own that notes, instead of sending, when it leads; run by the tests.

    python -m tests.mqservice.beat_process FILE IDLE_MS

Each line of FILE: milliseconds of the machine's monotonic clock, and what happened: ``ready``,
``asked`` (for the lock, in vain) or ``sent``, with the time at which it began to ask whether it
may: what a process that stood still was allowed before, it may send late. After IDLE_MS of silence
its session is ended.
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

        def note(what: str, at_ms: int | None = None) -> None:
            notes.write(f"{at_ms or now_ms()} {what}\n")

        class Noting(LeaderScheduler):
            asked_ms = 0

            def tick(self, *args: Any, **kwargs: Any) -> float:  # Any: Celery's
                wait_s = super().tick(*args, **kwargs)
                if not self.lock.is_held:
                    note("asked")
                return wait_s

            def apply_entry(self, *args: Any, **kwargs: Any) -> None:  # Any: Celery's
                self.asked_ms = now_ms()
                super().apply_entry(*args, **kwargs)

            def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> None:  # Any: Celery's
                note("sent", self.asked_ms)

        app = Celery("test", broker="memory://")
        app.conf.update(
            beat_schedule={"tick": {"task": "tick", "schedule": 0.05}},
            result_expires=None,
            beat_max_loop_interval=1,
        )
        service = Service(app, scheduler_cls=Noting)
        note("ready")
        service.start(embedded_process=False)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


if __name__ == "__main__":
    main(*sys.argv[1:])
