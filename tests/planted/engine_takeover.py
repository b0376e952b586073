"""Bugs of what is acknowledged, applied and taken over where a log outlives the machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from storage_engine.errors import StoreUnavailable
from storage_engine.puts.dispatcher import Dispatcher
from storage_engine.puts.put_path import holds_one_record
from storage_engine.replication.tail import write_tail
from storage_engine.wire.operations import Op
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Takeover", PLANTS)

_TESTS: Final = "tests/storage_engine/replication"
_SEEN: Final = (
    f"{_TESTS}/test_replicated_puts.py"
    "::test_a_replicated_message_is_answered_and_seen_when_the_log_has_it"
)
_CAME_BACK: Final = (
    f"{_TESTS}/test_rejoin.py"
    "::test_a_former_owner_becomes_like_a_replica_that_never_owned_the_shard"
)
_STOOD_STILL: Final = (
    f"{_TESTS}/test_deposed_server.py"
    "::test_an_engine_that_was_replaced_while_it_stood_still_acknowledges_nothing"
)


@planted("storage_engine.replication.replication:Replication._synced", _SEEN)
def acknowledged_before_it_is_replicated(
    real: Real, replication: Thing, end_offset: Thing, since_ms: Thing, done: Thing, error: Thing
) -> None:
    done(error)


@planted("storage_engine.puts.replicated_dispatcher:ReplicatedDispatcher.follow", _SEEN)
def visible_before_it_is_replicated(
    real: Real,
    dispatcher: Thing,
    end_offset: Thing,
    entries: Thing,
    keys: Thing,
    published: Thing = None,
) -> None:
    Dispatcher.follow(dispatcher, end_offset, entries, keys, published)


@planted(
    "storage_engine.replication.follower:Follower.read_on",
    f"{_TESTS}/test_takeover.py::test_a_replica_has_what_was_acknowledged_and_what_was_settled",
)
async def tail_not_read_to_its_end(real: Real, follower: Thing) -> None:
    found = [each async for each in follower._log.read(follower.tail.position)]
    for each in found[:-2]:
        follower._take(each)


@planted("storage_engine.replication.replication:Replication.may_acknowledge", _STOOD_STILL)
def fence_not_checked_by_an_owner_that_stood_still(real: Real, replication: Thing) -> bool:
    return True


@planted("storage_engine.server.server:_OwnersConnection.send_replies", _STOOD_STILL)
def fence_not_checked_before_replies_go_out(real: Real, connection: Thing) -> None:
    super(type(connection), connection).send_replies()


@planted(
    "storage_engine.replication.replica:Replica._check",
    f"{_TESTS}/test_takeover.py::test_a_replica_refuses_a_gap_a_repetition_and_another_order",
)
def replica_applies_out_of_order(real: Real, replica: Thing, entry: Thing) -> None:
    return


@planted(
    "storage_engine.replication.follower:Follower._why_foreign",
    f"{_TESTS}/test_takeover.py"
    "::test_a_store_whose_segments_are_all_gone_is_not_taken_for_one_that_retention_cut",
)
def entries_of_its_own_not_compared(real: Real, follower: Thing, entry: Thing) -> str:
    return ""


@planted("storage_engine.replication.follower:Follower._is_of_next_owner", _CAME_BACK)
def former_owner_builds_its_store_anew(real: Real, follower: Thing, entry: Thing) -> bool:
    return False


@planted("storage_engine.replication.follower:keep", _CAME_BACK)
def extra_messages_of_a_former_owner_are_thrown_away(
    real: Real, files: Thing, store: Thing, start: Thing, epoch: Thing
) -> None:
    return


@planted("storage_engine.replication.cut_off:_has_acknowledged", _CAME_BACK)
def unacknowledged_messages_are_kept(real: Real, files: Thing, store: Thing, start: Thing) -> bool:
    return True


@planted("storage_engine.recovery.warm_replica:WarmReplica.cut", _CAME_BACK)
def queues_of_a_former_owner_lead_to_what_was_cut_off(
    real: Real, warm: Thing, offset: Thing
) -> None:
    return


@planted(
    "storage_engine.replication.changes:_packed",
    f"{_TESTS}/test_rejoin.py::test_files_of_a_next_owner_that_are_not_whole_count_for_nothing",
)
def first_entry_taken_for_the_whole_change(
    real: Real, groups: Thing, bytes_max: Thing
) -> Iterator[Thing]:
    for sections, is_cut, _ in real(groups, bytes_max):
        yield sections, is_cut, True


@planted(
    "storage_engine.replication.replica:Replica._write_files",
    f"{_TESTS}/test_rejoin.py::test_a_kill_at_any_step_of_coming_back_loses_nothing",
)
def place_written_before_the_files(real: Real, replica: Thing, found: Thing) -> None:
    write_tail(
        replica._files,
        replica._path,
        msgspec.structs.replace(replica._whole_tail, has_own_files=False),
    )
    real(replica, found)


@planted(
    "storage_engine.recovery.warm_replica:WarmReplica.localize",
    "tests/storage_engine/recovery/test_warm_replica.py"
    "::test_who_takes_over_reads_the_log_from_the_last_checkpoint",
)
def replica_leaves_its_queues_to_the_takeover(real: Real, warm: Thing, content: Thing) -> Thing:
    return content


@planted(
    "storage_engine.replication.replica:Replica._truncate",
    f"{_TESTS}/test_takeover.py::test_a_replica_forgets_what_a_deposed_owner_wrote_too_far",
)
def replica_keeps_what_its_next_owner_does_not_have(
    real: Real, replica: Thing, start: Thing
) -> None:
    return


@planted(
    "storage_engine.replication.changes:ChangeReader.take",
    f"{_TESTS}/test_takeover.py"
    "::test_half_a_record_at_the_end_of_the_log_is_taken_back_by_the_next_owner",
)
def next_owner_continues_after_half_a_record(
    real: Real, reader: Thing, *, is_whole: Thing = False
) -> Thing:
    before = reader.log_end
    change = real(reader, is_whole=is_whole)
    return change._replace(log_from=max(before, change.log_start))


@planted(
    "storage_engine.replication.replication:Replication._write_tail",
    f"{_TESTS}/test_snapshots.py::test_an_owner_starts_again_after_it_has_trimmed_the_log",
)
async def log_trimmed_before_the_owner_has_noted_it(
    real: Real, replication: Thing, tail: Thing
) -> None:
    return


@planted(
    "storage_engine.replication.restorer:Restorer._clear_behind",
    f"{_TESTS}/test_snapshots.py::test_what_a_deposed_owner_wrote_too_far_is_cleared",
)
def bytes_of_a_deposed_owner_stay_behind_a_snapshot(
    real: Real, restorer: Thing, path: Thing, offset: Thing
) -> None:
    restorer._files.sync_path(path)


@planted(
    "storage_engine.replication.restorer:is_piece",
    f"{_TESTS}/test_snapshots.py::test_a_replica_that_is_late_continues_from_a_snapshot",
)
def pieces_that_are_there_are_not_compared(real: Real, piece: Thing, content: Thing) -> bool:
    return True


@planted(
    "storage_engine.store:reject_attached",
    f"{_TESTS}/test_takeover.py::test_a_replica_is_not_served_without_its_log",
)
def replica_served_without_its_log(real: Real, store_path: Thing) -> None:
    return


@planted(
    "storage_engine.puts.replicated_dispatcher:ReplicatedDispatcher.queue_ends",
    f"{_TESTS}/test_replicated_puts.py::test_a_checkpoint_counts_what_cannot_be_seen_yet",
)
def checkpoint_counts_only_what_is_seen(real: Real, dispatcher: Thing, queues: Thing) -> Thing:
    return Dispatcher.queue_ends(dispatcher, queues)


_LANES: Final = "tests/storage_engine/wire/test_put_lanes.py"
_HELD: Final = "tests/storage_engine/wire/test_held_calls.py"


@planted(
    "storage_engine.wire.async_client:AsyncStoreClient.put_for",
    f"{_LANES}::test_a_frame_of_replicated_puts_holds_up_no_other",
)
def replicated_puts_share_frames_with_others(
    real: Real, client: Thing, call: Thing, records: Thing, *, is_replicated: Thing = False
) -> None:
    real(client, call, records)


@planted(
    "storage_engine.server.server:_OwnersConnection._is_single",
    f"{_LANES}::test_an_engine_answers_a_put_to_the_disk_before_one_to_the_log",
)
def put_to_the_disk_answered_with_one_to_the_log(real: Real, payload: Thing) -> bool:
    return holds_one_record(payload)


@planted(
    "storage_engine.wire.operations:Operation.no_reply",
    f"{_HELD}::test_what_was_not_sent_is_sent_to_the_next_engine_and_nothing_else",
)
def sent_put_called_unsent(real: Real, op: Thing, reason: Thing) -> StoreUnavailable:
    return StoreUnavailable(reason)


@planted(
    "storage_engine.wire.async_client:AsyncStoreClient._is_held_again",
    f"{_HELD}::test_a_receive_that_waits_goes_on_at_the_next_engine_but_not_at_a_third",
)
def receive_never_sent_again(real: Real, client: Thing, request_id: Thing, entry: Thing) -> bool:
    return False


@planted(
    "storage_engine.wire.held_calls:HeldCalls.drop",
    f"{_HELD}::test_no_more_calls_and_bytes_are_held_than_allowed",
)
def abandoned_calls_stay_held(real: Real, held: Thing, request_id: Thing) -> None:
    return


@planted(
    "storage_engine.wire.held_calls:HeldCalls.begin",
    f"{_HELD}::test_in_a_long_outage_nothing_is_held",
)
def outage_begins_anew_with_each_call(real: Real, held: Thing) -> None:
    held._since_ms = held._clock.monotonic_ms()


@planted(
    "storage_engine.server.server:Server.refuse_changes",
    "tests/storage_engine/replication/test_stopping_owner.py"
    "::test_a_settle_that_the_log_will_not_have_is_not_confirmed",
)
def settles_are_confirmed_by_an_owner_that_stops(real: Real, server: Thing) -> None:
    return


@planted(
    "storage_engine.wire.async_client:AsyncStoreClient._send_put_frame",
    f"{_HELD}::test_a_put_that_a_stopping_engine_refuses_goes_to_the_next_one",
)
def refused_puts_do_not_wait_for_the_next_engine(
    real: Real, client: Thing, lane: Thing, payload: Thing, waiters: Thing
) -> None:
    may_be_replaced, client._may_be_replaced = client._may_be_replaced, False
    real(client, lane, payload, waiters)
    client._may_be_replaced = may_be_replaced


@planted(
    "storage_engine.wire.async_client:AsyncStoreClient._is_held_after_refusal",
    f"{_HELD}::test_changes_that_a_stopping_engine_refuses_go_to_the_next_one",
)
def refused_changes_do_not_wait_for_the_next_engine(
    real: Real, client: Thing, request_id: Thing, entry: Thing, status: Thing
) -> bool:
    return entry.op is Op.PUT and bool(real(client, request_id, entry, status))


@planted(
    "storage_engine.wire.async_client:AsyncStoreClient._is_held_again",
    f"{_HELD}::test_changes_that_may_have_been_made_are_not_sent_to_the_next_engine",
)
def changes_that_may_have_been_made_are_sent_again(
    real: Real, client: Thing, request_id: Thing, entry: Thing
) -> bool:
    entry.may_repeat = True
    return bool(real(client, request_id, entry))


_LEAVE: Final = f"{_TESTS}/test_leave.py"


@planted(
    "storage_engine.replication.follower:Follower._reject_partial",
    f"{_LEAVE}::test_nobody_takes_over_a_store_that_is_not_all_uploaded",
)
def part_of_an_upload_taken_over(real: Real, follower: Thing) -> None:
    return


@planted(
    "storage_engine.replication.follower:Follower._take",
    f"{_LEAVE}::test_a_shard_that_leaves_its_log_is_served_from_this_disk_alone",
)
def shard_that_left_taken_over(real: Real, follower: Thing, read: Thing) -> None:
    follower._passes_left = range(1 << 63)
    real(follower, read)


@planted(
    "storage_engine.replication.follower:Follower.bring_back",
    f"{_LEAVE}::test_segments_that_only_the_bucket_has_come_back",
)
async def segments_left_in_the_bucket(real: Real, follower: Thing) -> None:
    return
