"""Bugs of what clients are told and sent: outcomes, duplicates, credit, quotas."""

from __future__ import annotations

from typing import Final

import msgspec

from mqservice.delivery.produce.produce_responses import RejectedResult, StoredResult
from mqservice.lib.problem import Problem
from mqservice.store import OutcomeUnknown, SettleReply
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Answers, flow and quotas", PLANTS)

_TESTS: Final = "tests/mqservice"


@planted(
    "mqservice.delivery.produce.put:Put.results",
    f"{_TESTS}/delivery/test_produce_batch.py::test_what_the_engine_refuses_shows_in_its_own_result",
)
def batch_reported_as_stored_whole(real: Real, put: Thing) -> Thing:
    _, results = real(put)
    return 201, [
        StoredResult(each.index, 201, "", 0, 0, "", "synced")
        if isinstance(each, RejectedResult)
        else each
        for each in results
    ]


@planted(
    "mqservice.delivery.plane:problem_from_store",
    f"{_TESTS}/delivery/test_produce_errors.py::test_what_the_engine_says_becomes_a_retryable_problem",
)
def unknown_outcome_reported_as_failure(real: Real, exc: Thing) -> Thing:
    if isinstance(exc, OutcomeUnknown):
        return Problem.of("ENGINE_UNAVAILABLE", "not stored", stored=False)
    return real(exc)


@planted(
    "mqservice.delivery.produce.put:Put.response",
    f"{_TESTS}/delivery/test_produce.py::test_an_async_topic_answers_buffered",
)
def buffered_message_called_synced(real: Real, put: Thing) -> Thing:
    status, stored = real(put)
    return status, msgspec.structs.replace(stored, durability="synced")


@planted(
    "mqservice.delivery.settle.settle_plan:SettleCall.answer",
    f"{_TESTS}/delivery/test_receive_settle.py::test_a_stale_receipt_fails_alone",
)
def failed_receipts_left_out_of_the_answer(real: Real, call: Thing) -> Thing:
    settled = real(call)
    settled.failed.clear()
    return settled


@planted(
    "mqservice.delivery.settle.settle_plan:SettleCall.begin",
    f"{_TESTS}/delivery/test_settle_and_receive.py::test_what_a_waiting_receive_settles_is_settled_at_once",
)
def receipts_of_a_receive_left_alone(real: Real, call: Thing, store: Thing, waiter: Thing) -> None:
    call._waiter = waiter
    for request in call._requests:
        counts = {"nacked_count": 0, "dead_lettered_count": 0, "acked_count": len(request.acks)}
        call.settled(SettleReply(extended_until_ms=[], failures=[], **counts))


@planted(
    "mqservice.delivery.settle.settle_plan:SettleCall.settled",
    f"{_TESTS}/delivery/test_settle_and_receive.py::test_the_quota_has_what_is_leased_and_not_what_is_settled",
)
def room_of_what_is_settled_on_the_way_not_released(real: Real, call: Thing, reply: Thing) -> None:
    counted = call._meter.inflight_count
    real(call, reply)
    call._meter.inflight_count = counted


@planted(
    "storage_engine.wire.reply_handlers:ReceiveCall.cancel",
    f"{_TESTS}/delivery/test_settle_and_receive.py::test_a_settlement_that_fails_ends_a_receive_that_would_wait",
)
def leases_kept_when_the_settlement_beside_them_fails(real: Real, call: Thing) -> None:
    pass


@planted(
    "mqservice.delivery.receive.receive:_makes_room",
    f"{_TESTS}/quotas/test_engine_usage.py::test_a_receive_that_settles_makes_its_own_room",
)
def room_of_what_a_receive_settles_not_released(real: Real, meter: Thing, order: Thing) -> Thing:
    return False


@planted(
    "mqservice.idempotency.middleware:_repeat_response",
    f"{_TESTS}/idempotency/test_posts.py::test_another_request_under_the_key_is_409",
)
def other_content_under_a_key_answered_as_the_first(
    real: Real, row: Thing, rights: Thing, fingerprint: Thing
) -> Thing:
    return real(row, rights, bytes(row.fingerprint))


@planted(
    "mqservice.delivery.produce.idempotency:_fingerprint",
    f"{_TESTS}/delivery/test_idempotency.py::test_another_content_under_the_key_is_409",
)
def content_of_a_message_not_compared(real: Real, offer: Thing, message_count: Thing) -> bytes:
    return bytes(16)


@planted(
    "mqservice.delivery.socket.credit:Credits.spend",
    f"{_TESTS}/delivery/test_socket_flow.py::test_nothing_is_sent_beyond_the_credit_in_messages",
)
def credit_never_spent(real: Real, credits: Thing, msgs: Thing, body_bytes: Thing) -> None:
    return


@planted(
    "mqservice.delivery.socket.session:Session.tick",
    f"{_TESTS}/delivery/test_socket_flow.py::test_a_reader_that_talks_and_does_not_read_is_cut_off_too",
)
def slow_reader_never_cut_off(real: Real, session: Thing, now_ms: Thing, wall_ms: Thing) -> None:
    if session.sender.waiting_since_ms is not None:
        session.sender.waiting_since_ms = now_ms
    real(session, now_ms, wall_ms)


@planted(
    "mqservice.delivery.socket.session:close_all",
    f"{_TESTS}/delivery/test_socket_flow.py::test_a_closed_socket_gives_its_leases_back_at_once",
)
async def closed_socket_keeps_its_leases(
    real: Real, subscriptions: Thing, reason: Thing, has_vanished: Thing
) -> None:
    return


@planted(
    "mqservice.quotas.meters:fair_share",
    f"{_TESTS}/quotas/test_meters.py::test_a_flood_through_two_processes_gets_the_limit_once",
)
def quota_counted_by_each_process_alone(
    real: Real, limit: Thing, own: Thing, others: Thing, process_count: Thing
) -> Thing:
    return limit


@planted(
    "mqservice.quotas.meter:TenantMeter.charge_in",
    f"{_TESTS}/quotas/test_data_plane.py::test_a_producer_above_its_rate_is_told_when_to_come_back",
)
def produced_messages_not_charged(
    real: Real, meter: Thing, message_count: Thing, byte_count: Thing, now_ms: Thing
) -> None:
    return


@planted(
    "mqservice.scheduler:LeaderScheduler.apply_entry",
    f"{_TESTS}/test_scheduler.py::test_a_leader_asks_before_each_thing_that_it_sends",
)
def former_leader_keeps_sending(
    real: Real, scheduler: Thing, entry: Thing, producer: Thing = None
) -> None:
    scheduler.apply_async(entry, producer=producer, advance=False)


@planted(
    "mqservice.delivery.queues:QueueChooser.choose_all",
    f"{_TESTS}/delivery/test_queue_choice.py::test_batches_give_each_queue_what_single_messages_in_turn_give",
)
def batches_all_to_one_queue(real: Real, chooser: Thing, route: Thing, wishes: Thing) -> Thing:
    return [0 for _ in wishes]


@planted(
    "mqservice.delivery.socket.session:PublishConfirms._drop",
    f"{_TESTS}/delivery/test_publish_confirms.py::test_an_end_leaves_nobody_waiting_and_counts_what_was_stored",
)
def stored_messages_of_a_lost_client_not_counted(
    real: Real, confirming: Thing, put: Thing, message_count: Thing
) -> None:
    confirming._free(message_count)
