"""Copies what a run needs of every shard out of its bucket: no engine's directory is mounted.

    engine ── how far its log goes, by its clock ─▶ [copy_shards] ─▶ WORK/NAME/, shards.json
    bucket ── storage_engine.tools.shard_copy ──────────┘   └─▶ what is left out of the report

A shard's copy is whole up to the moment at which its engine was asked, once the bucket has what the
engine had then. Where no engine answers it is whole up to its last message. A shard that cannot be
read, or whose copy does not reach the end of the report's days, is named; the others are reported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from mqservice.lib.clock import Clock
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE, engine_log_env, has_replicated_log
from mqservice.reports.programs import Failure, RunFailed, child_env, run_program
from mqservice.shards.queries import namespace_counts
from mqservice.store import (
    SnapshotRelease,
    SnapshotReply,
    SnapshotRequest,
    StoreError,
    blocking_client,
)
from storage_engine.tools.shard_copy.report import EXIT_REFUSED, CopyReport

log = logging.getLogger(__name__)

PROGRAM: Final = (sys.executable, "-P", "-m", "storage_engine.tools.shard_copy")
_DEPLOYMENT_VARIABLE: Final = "MQ_ENGINE_DEPLOYMENT"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """``is_unread``: nothing of the shard is in the report; else something may lack."""

    shard: str
    reason: str
    is_unread: bool


def copy_shards(
    shards: Sequence[str],
    work: Path,
    *,
    from_ms: int,
    to_ms: int,
    limit_s: int,
    clock: Clock,
    still_wanted: Callable[[], bool],
) -> tuple[Path, list[LeftOut]]:
    """Copy what the shards stored in ``[from_ms, to_ms)``: the file for ``python -m analytics run
    --shards``, and what is left out. Minutes for a full disk.

    Raises ``RunFailed``: there is no replicated log, it refuses, no shard can be read, or it took
    too long. ``RunSuperseded``.
    """
    if not has_replicated_log(os.environ):
        raise RunFailed(
            Failure.ARGUMENTS,
            "reports over several shards are read from their replicated log: set "
            f"{REPLICATED_LOG_VARIABLE}, also for the workers",
        )
    until_ms = clock.monotonic_ms() + limit_s * SECOND_MS
    sources: list[dict[str, Any]] = []  # Any: JSON
    left_out: list[LeftOut] = []
    for shard in shards:
        left_s = max((until_ms - clock.monotonic_ms()) // SECOND_MS, 1)
        with _held_log(shard, lease_ms=limit_s * SECOND_MS) as (held, trouble):
            copied, said = _copy(
                shard,
                work / shard,
                from_ms=from_ms,
                reach=0 if held is None else held.end_offset,
                limit_s=left_s,
                clock=clock,
                still_wanted=still_wanted,
            )
        if copied is None:
            left_out.append(LeftOut(shard, said, is_unread=True))
            sources.append({"name": shard, "store": None})
            continue
        as_of_ms = copied.last_ms or 0
        if held is not None and copied.end_offset >= held.end_offset:
            as_of_ms = held.lease_until_ms - limit_s * SECOND_MS
        elif as_of_ms < to_ms:
            if held is not None:
                trouble = f"the log lacks {held.end_offset - copied.end_offset} bytes of its engine"
            left_out.append(LeftOut(shard, trouble, is_unread=False))
        sources.append(
            {
                "name": shard,
                "store": str(work / shard),
                "end_offset": copied.end_offset,
                "as_of_ms": as_of_ms,
            }
        )
    if all(source["store"] is None for source in sources):
        reasons = "; ".join(f"{each.shard}: {each.reason}" for each in left_out)
        raise RunFailed(Failure.STORE_UNREADABLE, Failure.STORE_UNREADABLE.value, reasons)
    file = work / "shards.json"
    file.write_bytes(msgspec.json.encode({"shards": sources}))
    return file, _without_empty(left_out)


@contextlib.contextmanager
def _held_log(shard: str, *, lease_ms: int) -> Iterator[tuple[SnapshotReply | None, str]]:
    """How far the engine's log goes, and retention waits meanwhile; or why nobody says."""
    try:
        with blocking_client(shard) as client:
            held = client.snapshot(SnapshotRequest(lease_ms=lease_ms))
    except StoreError as exc:
        yield None, f"its engine does not say how far its log goes: {exc}"
        return
    try:
        yield held, ""
    finally:
        with contextlib.suppress(StoreError), blocking_client(shard) as client:
            client.snapshot_release(SnapshotRelease(snapshot_id=held.snapshot_id))


def _copy(
    shard: str,
    directory: Path,
    *,
    from_ms: int,
    reach: int,
    limit_s: int,
    clock: Clock,
    still_wanted: Callable[[], bool],
) -> tuple[CopyReport | None, str]:
    """What was copied, or why nothing was."""
    lines: list[bytes] = []
    code, said = run_program(
        [*PROGRAM, str(directory), "--from-ms", str(from_ms), "--reach", str(reach)],
        env=_env_of(shard),
        limit_s=limit_s,
        clock=clock,
        on_line=lines.append,
        still_wanted=still_wanted,
    )
    reason = said.splitlines()[-1] if said else f"the copying process exited with {code}"
    if code == EXIT_REFUSED:
        raise RunFailed(Failure.LOG_REFUSED, f"shard {shard}: {reason}", said)
    if code != 0 or not lines:
        return None, reason
    return msgspec.json.decode(lines[-1], type=CopyReport), ""


def _env_of(shard: str) -> dict[str, str]:
    """What its engine is told of its log."""
    own = {"MQ_ENGINE_SHARD": shard}
    if deployment := os.environ.get(_DEPLOYMENT_VARIABLE):
        own[_DEPLOYMENT_VARIABLE] = deployment
    return {**child_env(os.environ), **engine_log_env(os.environ), **own}


def _without_empty(left_out: Sequence[LeftOut]) -> list[LeftOut]:
    """Nobody misses a shard in which no namespace lives. One query."""
    counts = namespace_counts() if left_out else {}
    for each in left_out:
        log.warning(
            "A report lacks a shard, or the end of what it stored",
            extra={"action": "report_shard_left_out", "shard": each.shard, "reason": each.reason},
        )
    return [each for each in left_out if counts.get(each.shard)]
