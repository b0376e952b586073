"""A process that sweeps and is killed in the middle of it; run by the tests.

    python -m tests.mqservice.schedules.dying_worker MOMENT NOW_MS ENGINE_SOCKET

Moments: ``ready`` before the engine is asked, ``stored`` before its answer is saved, ``saved``
before what is saved is committed.
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


def main(moment: str, now_ms: str, engine_socket: str) -> None:
    settings.MQ_ENGINE_SOCKET = engine_socket
    django.setup()
    from mqservice.schedules import sending
    from mqservice.schedules.charging import Charges
    from mqservice.schedules.models import Schedule
    from mqservice.store import StoreClient

    def dying(real: Callable[..., Any], *, is_done_first: bool) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> NoReturn:  # Any: passed on as they come
            if is_done_first:
                real(*args, **kwargs)
            die()

        return called

    place: Any  # Any: a method of a class or a manager is put in its place
    place, name = {
        "ready": (StoreClient, "put_once"),
        "stored": (StoreClient, "put_once"),
        "saved": (Schedule.objects, "bulk_update"),
    }[moment]
    setattr(place, name, dying(getattr(place, name), is_done_first=moment != "ready"))
    clock = ManualClock(int(now_ms))
    sending.sweep(clock, by=Charges(clock))


if __name__ == "__main__":
    main(*sys.argv[1:])
