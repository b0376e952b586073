"""Bodies and records that the workloads send: 1 KiB of text, as orders might look."""

from __future__ import annotations

import time
from random import Random
from typing import Final

from storage_engine.client import StoreMessage, encode_record, new_message_id

BODY_BYTES: Final = 1_024
SEED: Final = 20_261_121
BORN_HOST: Final = ("127.0.0.1", 40_000)


def make_body() -> bytes:
    """1 KiB of printable ASCII without quotes and backslashes, so JSON adds nothing to it."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789 ,.:-"
    return "".join(Random(SEED).choices(letters, k=BODY_BYTES)).encode()


def make_records(
    topic: str,
    queue_count: int,
    count: int,
    *,
    neighbours_count: int = 1,
    body_bytes: int = BODY_BYTES,
) -> list[bytes]:
    """``count`` records of 1 KiB bodies, or shorter ones, over the queues in turn, so many
    neighbours to each. ``topic`` is the full name.
    """
    body = make_body()[:body_bytes]
    now_ms = time.time_ns() // 1_000_000
    return [
        encode_record(
            StoreMessage(
                topic=topic,
                queue_id=number // neighbours_count % queue_count,
                body=body,
                message_id=new_message_id(),
                born_timestamp_ms=now_ms,
                born_host=BORN_HOST,
            )
        )
        for number in range(count)
    ]
