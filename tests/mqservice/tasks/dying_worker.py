"""A process that takes a turn at a task and is killed in the middle of it; run by the tests.

    python -m tests.mqservice.tasks.dying_worker TASK MOMENT NOW_MS ENGINE_SOCKET

Moments: ``noted`` before the engine is asked, ``sent`` before its answer is saved, ``saving``
before what is saved is committed, ``saved`` after that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import django
from django.conf import settings

from tests.clock import ManualClock


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives on")


def main(public_id: str, moment: str, now_ms: str, engine_socket: str) -> None:
    settings.MQ_ENGINE_SOCKET = engine_socket
    django.setup()
    from mqservice.tasks import steps
    from mqservice.tasks.models import TaskFailure

    def dying(real: Callable[..., Any], *, is_done_first: bool) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> NoReturn:  # Any: passed on as they come
            if is_done_first:
                real(*args, **kwargs)
            die()

        return called

    place: Any  # Any: a function of a module or a manager is put in its place
    place, name = {
        "noted": (steps, "send"),
        "sent": (steps, "send"),
        "saving": (TaskFailure.objects, "bulk_create"),
        "saved": (steps, "save"),
    }[moment]
    setattr(place, name, dying(getattr(place, name), is_done_first=moment != "noted"))
    steps.take_turn(public_id, ManualClock(int(now_ms)))


if __name__ == "__main__":
    main(*sys.argv[1:])
