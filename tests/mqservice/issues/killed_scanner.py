"""A process that counts a group's dead letters and is killed in the middle of it; run by the tests.

    python -m tests.mqservice.issues.killed_scanner GROUP_ID MOMENT NOW_MS ENGINE_SOCKET

Moments: ``read`` before anything is written, ``counted`` before the place is, ``placed`` before
what was written is committed, ``committed`` after that.
"""

from __future__ import annotations

import sys
from typing import Any

import django
from django.conf import settings

from mqservice.lib.names import MAIN_SHARD
from tests.kill_points import die, put_death


def main(group_id: str, moment: str, now_ms: str, engine_socket: str) -> None:
    settings.MQ_ENGINE_SOCKET = engine_socket
    django.setup()
    from mqservice.groups.models import ConsumerGroup
    from mqservice.issues import scanning
    from mqservice.issues.models import ScanPlace
    from mqservice.store import blocking_client

    place: Any  # Any: a function of a module or a class is put in its place
    if moment != "committed":
        place, name, is_done_first = {
            "read": (scanning, "record_tallies", False),
            "counted": (scanning, "record_tallies", True),
            "placed": (ScanPlace, "save", True),
        }[moment]
        put_death(place, name, is_done_first=is_done_first)
    group = ConsumerGroup.objects.select_related("namespace").get(pk=group_id)
    with blocking_client(MAIN_SHARD) as client:
        scanning.scan_batch(client, group, int(now_ms))
    die()


if __name__ == "__main__":
    main(*sys.argv[1:])
