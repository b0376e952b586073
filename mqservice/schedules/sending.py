"""Sends what is due: each planned time of each schedule once, even if workers overlap or die.

    rows that are due (locked, skipped by others) ──▶ run ──▶ route, check, charge ──▶ record
                                                                                         │
    rows: the next time, the id or the error ◀── places ◀── one put, each stored once ◀──┘

A chunk is one transaction around one put. Killed before the put, nothing has happened; killed after
it, the rows are as before and the next sweep puts the same runs: the engine knows their marks and
answers with what is there. It remembers them for some minutes only; a run that is later than that
is looked up by its id first.
"""

from __future__ import annotations

import logging
from random import SystemRandom
from typing import Final, NamedTuple

from django.db import transaction

from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.messages import check_offer, encode_offer
from mqservice.delivery.produce.idempotency import result_of
from mqservice.delivery.queues import QueueChooser
from mqservice.errors import problem_from_store
from mqservice.lib.clock import Clock
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.schedules.limits import (
    BODY_BYTES_MAX,
    CHUNK_RUNS,
    LOOK_UP_MESSAGES_MAX,
    LOOK_UPS_MAX,
    TURN_MS_MAX,
)
from mqservice.schedules.message import offer_of
from mqservice.schedules.models import Schedule
from mqservice.schedules.quota_charges import Charges, charges
from mqservice.schedules.runs import (
    RUN_FIELDS,
    Run,
    due_run,
    mark_of,
    record_rejection,
    record_sent,
)
from mqservice.shards.queries import shard_names
from mqservice.store import (
    LookUpRequest,
    StoreBusy,
    StoreClient,
    StoreError,
    TopicNotFound,
    blocking_client,
)
from mqservice.topics.routes import TopicRoute, find_topic_route
from mqservice.usage.counts import UsageCounts
from mqservice.usage.writing import write_counts

log = logging.getLogger(__name__)

# Whoever receives the message learns of what it is, unless the schedule says otherwise.
NAME_PROPERTY: Final = "mq_schedule"
TIME_PROPERTY: Final = "mq_planned_at"
OWN_HOST: Final = ("0.0.0.0", 0)  # "born on this service", not a place to bind to
# Whether ``sweep`` would find something, for one look at the database each second.
ANY_DUE: Final = "EXISTS (SELECT FROM schedules_schedule WHERE due_ms <= %(now_ms)s AND is_enabled)"
_queues: Final = QueueChooser(SystemRandom())


class Ready(NamedTuple):
    """A message that nothing but the engine can refuse any more."""

    route: TopicRoute
    queue_id: int
    message_id: str
    record: bytes


def sweep(clock: Clock, *, by: Charges = charges, turn_ms_max: int = TURN_MS_MAX) -> int:
    """Send what is due now, in each shard what waits longest first; how many were looked at. A
    transaction and a put for each ``CHUNK_RUNS``. After ``turn_ms_max`` what is left is the next
    sweep's: ticks wait behind this one.
    """
    looked_count = 0
    ends_at_ms = clock.monotonic_ms() + turn_ms_max
    for shard in shard_names():
        with blocking_client(shard) as client:
            while True:
                found_count = _send_chunk(client, clock, by)
                looked_count += found_count
                if found_count < CHUNK_RUNS or clock.monotonic_ms() >= ends_at_ms:
                    break
    return looked_count


@transaction.atomic
def _send_chunk(client: StoreClient, clock: Clock, by: Charges) -> int:
    now_ms = clock.now_ms()
    rows = Schedule.objects.select_for_update(skip_locked=True, of=("self",))
    due = rows.select_related("namespace").filter(
        due_ms__lte=now_ms, is_enabled=True, namespace__shard=client.shard
    )
    schedules = list(due.order_by("due_ms", "id")[:CHUNK_RUNS])
    runs = [run for run in (due_run(schedule, now_ms) for schedule in schedules) if run is not None]
    ready: list[tuple[Run, Ready]] = []
    away: Problem | None = None
    for run in runs:
        try:
            if away is not None:  # one wait for an engine that does not answer is enough
                raise away
            route = find_route(run.schedule)
            if not run.is_remembered(now_ms) and _is_stored(client, route, run.message_id):
                record_sent(run, run.message_id, now_ms)
                continue
            each = prepare(run.schedule, route, now_ms, run=run)
            by.charge(run.schedule.namespace, len(each.record))
        except Problem as problem:
            record_rejection(run, problem, now_ms)
        except StoreError as exc:
            away = problem_from_store(exc)
            record_rejection(run, away, now_ms)
        else:
            ready.append((run, each))
    if away is not None:
        for run, _ in ready:
            record_rejection(run, away, now_ms)
    elif ready:
        _put(client, ready, now_ms)
    for run in runs:
        if run.schedule.last_error:
            log.warning(
                "Could not send the message of a schedule",
                extra={
                    "action": "schedule_failed",
                    "schedule": run.schedule.public_id,
                    "error": run.schedule.last_error.partition(":")[0],
                },
            )
    Schedule.objects.bulk_update(schedules, RUN_FIELDS)
    return len(schedules)


def find_route(schedule: Schedule) -> TopicRoute:
    """Of its topic. One query. Raises Problem TOPIC_NOT_FOUND."""
    namespace = schedule.namespace
    route = find_topic_route(namespace.tenant_id, namespace.name, schedule.topic)
    if route is None:
        raise Problem.of("TOPIC_NOT_FOUND", f"{schedule.topic} does not exist in {namespace.name}")
    return route


def prepare(
    schedule: Schedule,
    route: TopicRoute,
    now_ms: int,
    *,
    run: Run | None = None,
    request_key: str | None = None,
) -> Ready:
    """Its message for the engine; of a run always under the same id. Raises Problem: the topic
    takes no such message.

    Args:
        request_key: of one that is sent by a request, which may come again.
    """
    offer = offer_of(schedule)
    told = {NAME_PROPERTY: schedule.name}
    if run is not None:
        told |= {TIME_PROPERTY: rfc3339(run.planned_ms), **run.mark}
    elif request_key is not None:
        told |= mark_of(schedule, request_key)
    queue_id = _queues.choose(route, offer.message_group, offer.queue)
    try:
        check_offer(offer, route)
        message_id, record = encode_offer(
            offer,
            route,
            queue_id=queue_id,
            born_ms=now_ms,
            born_host=OWN_HOST,
            mark=told,
            message_id=run.message_id if run else "",
        )
    except Fault as fault:
        raise problem_of(fault, stored=False) from None
    return Ready(route, queue_id, message_id, record)


def count_stored(stored: list[Ready], now_ms: int) -> None:
    """Add messages to what their tenants have used. Two queries, none for nothing."""
    counts = UsageCounts()
    for ready in stored:
        counts.stored(ready.route.engine_name, 1, len(ready.record))
    write_counts(counts.drain(), now_ms)


def _put(client: StoreClient, ready: list[tuple[Run, Ready]], now_ms: int) -> None:
    try:
        places = client.put_once([each.record for _, each in ready])
    except StoreError as exc:
        for run, _ in ready:
            record_rejection(run, problem_from_store(exc), now_ms)
        return
    stored: list[Ready] = []
    for (run, each), place in zip(ready, places, strict=True):
        error = result_of(place).error
        if error is not None:
            record_rejection(run, problem_from_store(error), now_ms)
            continue
        record_sent(run, each.message_id, now_ms)
        if not place.is_duplicate:
            stored.append(each)
    count_stored(stored, now_ms)


def _is_stored(client: StoreClient, route: TopicRoute, message_id: str) -> bool:
    """Whether an earlier try has stored a run. Raises ``StoreError``: nobody can tell."""
    cursor = ""
    for _ in range(LOOK_UPS_MAX):
        try:
            head, found = client.look_up(
                LookUpRequest(
                    topic=route.engine_name,
                    key=message_id,
                    messages_max=LOOK_UP_MESSAGES_MAX,
                    bytes_max=LOOK_UP_MESSAGES_MAX * BODY_BYTES_MAX,
                    cursor=cursor,
                )
            )
        except TopicNotFound:
            return False
        if any(record.message_id == message_id for record in found):
            return True
        if not head.is_complete:
            raise StoreBusy(
                "the key index does not have the newest messages yet, so it is unknown "
                "whether the message was stored"
            )
        cursor = head.cursor
        if not cursor:
            break
    return False
