"""A process that sweeps and is killed in the middle of it; run by the tests.

    python -m tests.mqservice.schedules.killed_worker MOMENT NOW_MS ENGINE_SOCKET

Moments: ``ready`` before the engine is asked, ``stored`` before its answer is saved, ``saved``
before what is saved is committed.
"""

from __future__ import annotations

import sys
from typing import Any

import django
from django.conf import settings

from tests.clock import ManualClock
from tests.kill_points import put_death


def main(moment: str, now_ms: str, engine_socket: str) -> None:
    settings.MQ_ENGINE_SOCKET = engine_socket
    django.setup()
    from mqservice.schedules import sending
    from mqservice.schedules.models import Schedule
    from mqservice.schedules.quota_charges import Charges
    from mqservice.store import StoreClient

    place: Any  # Any: a method of a class or a manager is put in its place
    place, name = {
        "ready": (StoreClient, "put_once"),
        "stored": (StoreClient, "put_once"),
        "saved": (Schedule.objects, "bulk_update"),
    }[moment]
    put_death(place, name, is_done_first=moment != "ready")
    clock = ManualClock(int(now_ms))
    sending.sweep(clock, by=Charges(clock))


if __name__ == "__main__":
    main(*sys.argv[1:])
