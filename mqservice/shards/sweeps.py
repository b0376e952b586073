"""What asks all of the engine asks each shard in turn, and one that is away holds up none.

task ──▶ [each_shard] ──▶ main, s2, s3 ── StoreError ──▶ a warning; left alone for a while
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from mqservice.lib.durations import SECOND_MS
from mqservice.shards.queries import shard_names
from mqservice.store import StoreClient, StoreError, blocking_client

log = logging.getLogger(__name__)

# One that hangs is noticed only after seconds: with each tick waiting for it, no thread would be
# left for the others.
REST_MS: Final = 5 * SECOND_MS

_lock = threading.Lock()
_away: dict[str, int] = {}  # until when it is left alone


def each_shard(do: Callable[[StoreClient], object], *, action: str, failure: str) -> None:
    """Call ``do`` with a client of each shard. ``failure``: what is logged, as ``action``, of one
    that does not answer.
    """
    names = shard_names()
    for shard in names:
        if len(names) > 1 and _is_resting(shard):
            continue
        try:
            with blocking_client(shard) as client:
                do(client)
            with _lock:
                _away.pop(shard, None)
        except StoreError as exc:
            with _lock:
                _away[shard] = _now_ms() + REST_MS
            log.warning(
                failure, extra={"action": action, "shard": shard, "error": type(exc).__name__}
            )


def _is_resting(shard: str) -> bool:
    with _lock:
        until_ms = _away.pop(shard, None)
        if until_ms is None:
            return False
        is_resting = _now_ms() < until_ms
        # Whoever comes first looks whether it is back, and the others wait for what it finds.
        _away[shard] = until_ms if is_resting else _now_ms() + REST_MS
        return is_resting


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
