"""A process that takes a turn at a task and is killed in the middle of it; run by the tests.

    python -m tests.mqservice.tasks.killed_worker TASK MOMENT NOW_MS ENGINE_SOCKET

Moments: ``noted`` before the engine is asked, ``sent`` before its answer is saved, ``saving``
before what is saved is committed, ``saved`` after that.
"""

from __future__ import annotations

import sys
from typing import Any

import django
from django.conf import settings

from tests.clock import ManualClock
from tests.kill_points import put_death


def main(public_id: str, moment: str, now_ms: str, engine_socket: str) -> None:
    settings.MQ_ENGINE_SOCKET = engine_socket
    django.setup()
    from mqservice.tasks import steps
    from mqservice.tasks.models import TaskFailure

    place: Any  # Any: a function of a module or a manager is put in its place
    place, name = {
        "noted": (steps, "send"),
        "sent": (steps, "send"),
        "saving": (TaskFailure.objects, "bulk_create"),
        "saved": (steps, "save"),
    }[moment]
    put_death(place, name, is_done_first=moment != "noted")
    steps.take_turn(public_id, ManualClock(int(now_ms)))


if __name__ == "__main__":
    main(*sys.argv[1:])
