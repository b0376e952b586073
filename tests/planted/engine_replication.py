"""Bugs of the replicated log: fences passed over, entries given up, called stored or not read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from storage_engine.replicated_log.errors import Fenced
from storage_engine.replicated_log.port import Position
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Replication", PLANTS)

_CONFORMANCE: Final = "tests/storage_engine/replicated_log/test_conformance.py"
_RACES: Final = "tests/storage_engine/replicated_log/test_races.py"
_SNAPSHOTS: Final = "tests/storage_engine/replicated_log/test_snapshot_bucket.py"
_LOG: Final = "storage_engine.replicated_log.object_log"


@planted(
    f"{_LOG}:refuse_newer",
    f"{_CONFORMANCE}::test_an_older_writer_is_fenced_and_nothing_of_it_is_read",
)
def the_fence_is_not_checked(real: Real, epoch: Thing, writer: Thing, found: Thing) -> None:
    return


@planted(
    f"{_LOG}:refuse_newer",
    f"{_CONFORMANCE}::test_the_next_owner_finds_everything_and_continues_behind_it",
)
def epochs_are_compared_the_wrong_way(
    real: Real, epoch: Thing, writer: Thing, found: Thing
) -> None:
    if found.epoch < epoch:
        raise Fenced("the log is at an older epoch")


@planted(
    f"{_LOG}:ObjectLog._acknowledge",
    f"{_RACES}::test_no_interleaving_of_owners_loses_or_reorders_what_was_acknowledged",
)
async def entries_are_acknowledged_without_a_look_at_the_boundary(real: Real, log: Thing) -> None:
    while stored := log._stored_first():
        for append in stored:
            log._pending.popleft()
            if not append.waiting.done():
                append.waiting.set_result(Position(log._epoch, append.sequence))


@planted(
    f"{_LOG}:ObjectLog._replace_boundary",
    f"{_CONFORMANCE}::test_trimmed_entries_are_gone_and_the_rest_stays",
)
async def one_entry_too_many_is_trimmed(
    real: Real, log: Thing, found: Thing, epoch: Thing, sequence: Thing
) -> None:
    await real(log, found, epoch, sequence + 1 if sequence else 0)


@planted(
    f"{_LOG}:ObjectLog._store",
    f"{_CONFORMANCE}::test_all_appends_that_wait_are_refused_by_the_fence",
)
async def entries_are_acknowledged_before_they_are_stored(
    real: Real, log: Thing, append: Thing, entry: Thing
) -> None:
    append.waiting.set_result(Position(log._epoch, append.sequence))
    await real(log, append, entry)


@planted(
    f"{_LOG}:ObjectLog.read",
    f"{_CONFORMANCE}::test_the_next_owner_finds_everything_and_continues_behind_it",
)
async def the_tail_is_read_up_to_the_first_change_of_owners(
    real: Real, log: Thing, start: Thing
) -> AsyncIterator[Thing]:
    first = None
    async for entry in real(log, start):
        first = first or entry.position.epoch
        if entry.position.epoch == first:
            yield entry


@planted(
    "storage_engine.replicated_log.snapshot_bucket:refuse_newer",
    f"{_SNAPSHOTS}::test_an_older_owner_publishes_nothing_and_deletes_nothing_that_is_used",
)
def an_older_owner_lists_its_snapshot(
    real: Real, epoch: Thing, writer: Thing, found: Thing
) -> None:
    return


@planted(
    "storage_engine.replicated_log.object_requests:ObjectRequests.delete_before",
    f"{_SNAPSHOTS}::test_no_interleaving_of_owners_deletes_what_a_snapshot_has",
)
async def pieces_of_others_are_deleted(
    real: Real, requests: Thing, prefix: Thing, before: Thing, keep: Thing = frozenset()
) -> int:
    deleted: int = await real(requests, prefix, f"{prefix}~", keep=keep)
    return deleted


@planted(
    "storage_engine.replicated_log.snapshot_bucket:SnapshotBucket.begin",
    f"{_SNAPSHOTS}::test_what_no_snapshot_has_is_deleted_and_reading_it_says_so",
)
def pieces_of_older_snapshots_are_used_again(real: Real, snapshots: Thing, known: Thing) -> None:
    before = dict(snapshots._known)
    real(snapshots, known)
    snapshots._known = {**before, **snapshots._known}
