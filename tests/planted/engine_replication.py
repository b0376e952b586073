"""Bugs of the replicated log: fences passed over, entries given up, called stored or not read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from storage_engine.replicated_log.port import Position
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Replication", PLANTS)

_CONFORMANCE: Final = "tests/storage_engine/replicated_log/test_conformance.py"
_RACES: Final = "tests/storage_engine/replicated_log/test_races.py"
_TROUBLES: Final = "tests/storage_engine/replication/test_bucket_troubles.py"
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
    real(found.epoch, writer, found._replace(epoch=epoch))


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
    f"{_SNAPSHOTS}::test_what_no_snapshot_has_is_deleted_and_reading_it_says_so",
)
async def pieces_of_others_are_deleted(
    real: Real,
    requests: Thing,
    prefix: Thing,
    before: Thing,
    *,
    since: Thing = "",
    keep: Thing = frozenset(),
) -> int:
    deleted: int = await real(requests, prefix, f"{prefix}~", since=since, keep=keep)
    return deleted


@planted(
    "storage_engine.replicated_log.snapshot_bucket:SnapshotBucket.begin",
    f"{_SNAPSHOTS}::test_what_no_snapshot_has_is_deleted_and_reading_it_says_so",
)
def pieces_of_older_snapshots_are_used_again(real: Real, snapshots: Thing, known: Thing) -> None:
    before = dict(snapshots._known)
    real(snapshots, known)
    snapshots._known = {**before, **snapshots._known}


@planted(
    "storage_engine.log.checkpoint:_version_of",
    f"{_TROUBLES}::test_an_older_engine_refuses_a_disk_without_the_segments_in_the_bucket",
)
def older_engines_open_a_disk_without_the_segments_in_the_bucket(real: Real, store: Thing) -> Thing:
    return 3


@planted(
    "storage_engine.log.segment_cache:SegmentCache._fail",
    f"{_TROUBLES}::test_a_damaged_piece_fails_only_those_who_need_it",
)
def a_damaged_piece_counts_as_a_bucket_that_is_away(
    real: Real, cache: Thing, segment: Thing, error: Thing
) -> None:
    real(cache, segment, OSError(str(error)))


@planted(
    "storage_engine.log.segment_cache:SegmentCache._fetched",
    f"{_TROUBLES}"
    "::test_newer_messages_of_other_queues_are_delivered_while_the_oldest_cannot_be_read",
)
def nobody_remembers_what_could_not_be_fetched(
    real: Real, cache: Thing, wanted: Thing, task: Thing
) -> None:
    real(cache, wanted, task)
    cache._failing.clear()


@planted(
    "storage_engine.delivery.lease_messages:MessageLeaser._fetch_later",
    f"{_TROUBLES}::test_what_was_left_out_comes_once_the_bucket_is_back_though_nobody_asks_for_it",
)
def what_is_left_out_is_never_fetched(real: Real, leaser: Thing, absent: Thing) -> None:
    return


@planted(
    "storage_engine.delivery.subscription:ProcessQueue._take_released",
    f"{_TROUBLES}::test_a_receipt_stays_good_when_its_message_was_nearly_given_to_another",
)
def who_had_a_message_before_is_forgotten(
    real: Real, queue: Thing, queue_offset: Thing, lease: Thing
) -> None:
    real(queue, queue_offset, lease)
    lease.released_before = None


@planted(
    "storage_engine.server.absent_requests:AbsentRequests.fail_those",
    f"{_TROUBLES}::test_a_member_that_has_left_is_none_again_when_its_messages_are_here",
)
def a_receive_outlives_its_member(
    real: Real, requests: Thing, is_wanted: Thing, error: Thing
) -> None:
    return


@planted(
    "storage_engine.replication.replica:Replica.leave",
    f"{_TROUBLES}::test_a_replica_follows_while_it_leaves_many_segments",
)
def a_replica_leaves_all_segments_at_once(
    real: Real, replica: Thing, published: Thing, *, segments_max: Thing
) -> Thing:
    return real(replica, published, segments_max=1_000)


@planted(
    "storage_engine.server.engine_metrics:replica_metrics_text",
    "tests/storage_engine/server/test_metrics_server.py::test_a_replica_says_how_far_it_is_behind",
)
def a_replica_that_says_it_owns_its_shard(real: Real, shard: Thing, status: Thing) -> Thing:
    text: bytes = real(shard, status)
    return text.replace(b'"} 0.0', b'"} 1.0')


_LASTING: Final = "tests/storage_engine/replication/test_lasting_changes.py"


@planted(
    "storage_engine.store:Store.lasting",
    f"{_LASTING}::test_a_confirmed_change_is_there_when_its_machine_is_lost_at_once[a cancel]",
)
def a_cancel_that_is_confirmed_before_the_log_has_it(
    real: Real, store: Thing, topic: Thing
) -> None:
    return None


@planted(
    "storage_engine.replication.log_waits:LogWaits.begin",
    f"{_LASTING}::test_who_comes_while_an_entry_is_made_waits_for_the_next",
)
def who_comes_too_late_for_an_entry_is_confirmed_with_it(real: Real, waits: Thing) -> Thing:
    return waits._waits
