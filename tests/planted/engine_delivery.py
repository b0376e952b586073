"""Bugs of leases, order, retries and what groups and clients have of their own."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from storage_engine.delivery.subscription import Verdict
from storage_engine.errors import StoreError
from storage_engine.records.topic_names import DLQ_PREFIX
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Delivery", PLANTS)

_TESTS: Final = "tests/storage_engine"
_QUEUE: Final = "storage_engine.delivery.subscription:ProcessQueue"


@planted(
    f"{_QUEUE}.can_settle",
    f"{_TESTS}/delivery/test_delivery.py::test_a_restart_forgets_leases_but_no_generation_comes_twice",
)
def stale_receipt_accepted(
    real: Real, queue: Thing, queue_offset: Thing, generation: Thing, first_generation: Thing
) -> Thing:
    verdict = real(queue, queue_offset, generation, first_generation)
    return Verdict.SETTLE if queue_offset in queue.inflight else verdict


@planted(
    f"{_QUEUE}.find_moved",
    f"{_TESTS}/delivery/test_delivery.py::test_a_stale_receipt_settles_nothing_once_someone_else_has_the_message",
)
def stale_receipt_of_a_retried_message_accepted(
    real: Real, queue: Thing, queue_offset: Thing
) -> Thing:
    _, retry, retry_offset = real(queue, queue_offset)
    return Verdict.SETTLE, retry, retry_offset


@planted(
    f"{_QUEUE}.take",
    f"{_TESTS}/delivery/test_delivery.py::test_a_leased_message_is_given_to_nobody_else_until_its_lease_ends",
)
def leased_message_given_to_a_second_member(
    real: Real, queue: Thing, lease: Thing, now_ms: Thing, messages_max: Thing, bytes_max: Thing,
    is_first: Thing, look: Thing = None,
) -> Thing:  # fmt: skip
    queue.position = queue.progress.consumer_offset
    return real(queue, lease, now_ms, messages_max, bytes_max, is_first=is_first, look=look)


@planted(
    "storage_engine.delivery.subscription:Lease.extended_to",
    f"{_TESTS}/delivery/test_delivery.py::test_a_leased_message_is_given_to_nobody_else_until_its_lease_ends",
)
def lease_that_never_ends(real: Real, lease: Thing, now_ms: Thing) -> Thing:
    return now_ms + 60_000


@planted(
    "storage_engine.delivery.subscription:ProcessQueue.take_in_order",
    f"{_TESTS}/delivery/test_ordered.py::test_a_later_message_never_overtakes_one_that_was_released",
)
def redelivery_overtaken_in_an_ordered_queue(
    real: Real, process_queue: Thing, lease: Thing, now_ms: Thing, messages_max: Thing,
    bytes_max: Thing, is_first: Thing, look: Thing = None,
) -> Thing:  # fmt: skip
    take = type(process_queue).take
    return take(process_queue, lease, now_ms, messages_max, bytes_max, is_first=is_first, look=look)


@planted(
    "storage_engine.delivery.subscription:_ByMessageGroup.skips",
    f"{_TESTS}/delivery/test_message_groups.py::test_a_message_group_waits_for_the_one_in_flight_and_others_continue",
)
def message_group_does_not_wait(
    real: Real, order: Thing, queue_offset: Thing, look: Thing
) -> Thing:
    return False


@planted(
    "storage_engine.delivery.subscription:MessageGroups.released",
    f"{_TESTS}/delivery/test_message_groups.py::test_what_fails_is_tried_again_in_its_place_before_anything_behind_it",
)
def failed_message_loses_its_place_in_its_group(
    real: Real, groups: Thing, queue_offset: Thing
) -> Thing:
    groups.forget(queue_offset)


@planted(
    "storage_engine.moves.moves:Mover.move",
    f"{_TESTS}/moves/test_retries.py::test_messages_that_waited_for_the_disk_are_moved_in_the_order_of_their_failures",
    f"{_TESTS}/moves/test_moves.py::test_a_full_log_moves_nothing",
)
def append_that_failed_taken_for_done(
    real: Real, mover: Thing, moves: Thing, moved: Thing
) -> Thing:
    try:
        return real(mover, moves, moved)
    except StoreError:
        for move in moves:
            mover._consumer_offsets.settle_moved(move.progress, [(move.queue_offset, 1)])
        moved()
        return [0] * len(moves)


@planted(
    "storage_engine.moves.retries:Retries._successor",
    f"{_TESTS}/moves/test_retries.py::test_a_late_ack_of_the_first_message_that_is_dead_has_expired",
)
def dead_letter_dropped_without_a_record(real: Real, retries: Thing, failure: Thing) -> Thing:
    successor = real(retries, failure)
    if successor is None or not successor.is_dead:
        return successor
    queue = failure.process_queue
    retries._consumer_offsets.settle_moved(queue.progress, [(failure.queue_offset, 1)])
    retries._delivery.moved([failure])
    return None


@planted(
    "storage_engine.settings.retry_policy:ExponentialDelays.delay_ms",
    f"{_TESTS}/settings/test_retry_policy.py::test_exponential_delays_never_overflow_shrink_or_leave_their_range",
)
def retry_delay_in_32_bits(real: Real, policy: Thing, reconsume_times: Thing) -> Thing:
    delay_ms = int(policy.start_ms * min(policy.factor, 1e4) ** min(reconsume_times, 60))
    return min(delay_ms & 0xFFFF_FFFF, policy.cap_ms)


@planted(
    "storage_engine.moves.retries:is_exhausted",
    f"{_TESTS}/delivery/test_ordered.py::test_after_its_last_attempt_a_message_is_a_dead_letter_and_the_queue_continues",
)
def one_attempt_too_many(real: Real, reconsume_times: Thing, max_reconsume_times: Thing) -> Thing:
    return real(reconsume_times=reconsume_times - 1, max_reconsume_times=max_reconsume_times)


@planted(
    "storage_engine.moves.moves:Mover.move_batch",
    f"{_TESTS}/moves/test_moves.py::test_a_move_made_before_a_reset_settles_nothing_after_it",
    f"{_TESTS}/groups/test_offset_reset.py::test_a_move_under_way_does_not_settle_what_a_reset_made_deliverable",
)
def reset_undone_by_an_older_move(
    real: Real, mover: Thing, batch: Thing, sources: Thing, moved: Thing
) -> Thing:
    def published() -> None:
        for progress, queue_offsets in sources:
            runs = [(queue_offset, 1) for queue_offset in queue_offsets]
            mover._consumer_offsets.settle_moved(progress, runs)
        moved()

    return mover._puts.append(batch, published)


@planted(
    "storage_engine.groups.broadcast_groups:BroadcastGroups._reader",
    f"{_TESTS}/groups/test_broadcast.py::test_each_client_gets_every_message",
)
def broadcast_progress_shared_by_clients(
    real: Real, broadcasting: Thing, group: Thing, client_id: Thing
) -> Thing:
    reader = real(broadcasting, group, client_id)
    return replace(reader, group=real(broadcasting, group, "everybody").group)


@planted(
    "storage_engine.moves.dead_letters:DeadLetters.is_removed",
    f"{_TESTS}/moves/test_dead_letters.py::test_what_was_dropped_stays_gone",
    f"{_TESTS}/moves/test_dead_letters.py::test_a_dead_letter_is_redriven_once_and_is_gone_then",
)
def redriven_dead_letter_still_there(
    real: Real, letters: Thing, topic: Thing, queue_id: Thing, queue_offset: Thing
) -> Thing:
    assert topic.startswith(DLQ_PREFIX) or not real(letters, topic, queue_id, queue_offset)
    return False


@planted(
    "storage_engine.groups.saved_sessions:SavedSessions._release",
    f"{_TESTS}/groups/test_saved_sessions.py::test_what_a_member_held_that_left_in_order_keeps_its_attempt",
)
def attempt_counted_though_the_member_left_in_order(
    real: Real, sessions: Thing, request: Thing
) -> None:
    real(sessions, replace(request, has_vanished=True))


@planted(
    "storage_engine.moves.retries:Retries.fail",
    f"{_TESTS}/groups/test_saved_sessions.py"
    "::test_a_member_that_vanishes_again_and_again_waits_by_the_groups_policy",
)
def crash_loop_without_delay(real: Real, retries: Thing, failure: Thing) -> None:
    real(retries, failure._replace(delay_ms=0) if failure.has_vanished else failure)


@planted(
    "storage_engine.delivery.subscription:Subscription.has_handed_over",
    f"{_TESTS}/groups/test_notices.py"
    "::test_what_is_left_in_a_queue_that_was_handed_over_keeps_its_attempt",
)
def hand_over_counted_as_a_failure(
    real: Real, subscription: Thing, process_queue: Thing, member_id: Thing
) -> bool:
    return False
