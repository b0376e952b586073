"""Counts new dead letters of all groups, each once; continues where it stopped.

    groups ── ends of their DLQs, one call ──▶ who has new ones, those that wait longest first
        └──▶ [a batch] ── place (locked) ── pull from its offset ──▶ tallies ──▶ issues, place:
                                                                                 one transaction

The offset of the DLQ is the cursor. It moves in the transaction that counts, so that a worker that
is killed has counted nothing, and another worker at the same time passes over the locked group.
Letters that were redriven meanwhile are counted too. What retention took before that is not, and
the issues' book says how many.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import DataError, IntegrityError, transaction

from mqservice.groups.models import ConsumerGroup
from mqservice.issues.limits import (
    BATCH_BYTES_MAX,
    BATCH_LETTERS,
    BATCHES_MAX,
    COUNTED_AT_ONCE,
    GROUPS_MAX,
    SCAN_MS_MAX,
    SCANNED_MAX,
)
from mqservice.issues.models import NOWHERE, ScanPlace
from mqservice.issues.recording import record_tallies
from mqservice.issues.tallies import tally
from mqservice.lib.clock import Clock
from mqservice.store import (
    DeadLettersRequest,
    PullRequest,
    PullStatus,
    StoreClient,
    TopicNotFound,
    dlq_topic_of,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """``letter_count``: letters that were passed; ``is_complete``: there were no more."""

    letter_count: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A group whose letters were not all counted."""

    group: ConsumerGroup
    scanned_ms: int


def scan(client: StoreClient, clock: Clock) -> Scanned:
    """Count what is new, within the limits of a tick.

    A call to the engine for each 1,000 groups and one for each batch; a transaction a batch. Raises
    ``StoreError`` or ``DatabaseError``; what was counted before it is kept.
    """
    ends_at_ms = clock.monotonic_ms() + SCAN_MS_MAX
    letter_count = 0
    is_complete = True
    for waiting in _waiting(client):
        for _ in range(BATCHES_MAX):
            if letter_count >= SCANNED_MAX or clock.monotonic_ms() >= ends_at_ms:
                return Scanned(letter_count=letter_count, is_complete=False)
            try:
                batch_count, is_at_end = scan_batch(client, waiting.group, clock.now_ms())
            except (IntegrityError, DataError) as exc:  # deleted meanwhile; others wait behind it
                log.error(
                    "Could not count the dead letters of a group",
                    extra={"action": "scan_failed", "group": waiting.group.name, "error": str(exc)},
                )
                is_complete = False
                break
            letter_count += batch_count
            if is_at_end:
                break
        else:
            is_complete = False
    return Scanned(letter_count=letter_count, is_complete=is_complete)


@transaction.atomic
def scan_batch(client: StoreClient, group: ConsumerGroup, now_ms: int) -> tuple[int, bool]:
    """Count one batch of a group; the number of letters passed, and whether no more are known.

    Nothing where another worker counts the group now. One call to the engine, or two.
    """
    place = _locked_place(group)
    if place is None:
        return 0, True
    start, lost_count = max(0, place.next_offset), 0
    try:
        head, records = client.pull(_request(group, start))
        if head.status == PullStatus.OFFSET_ILLEGAL:
            # Below: retention took what was not counted yet. Above: the queue lost its end, and
            # what comes there now is new.
            if place.next_offset != NOWHERE:
                lost_count = max(0, head.next_offset - start)
            start = head.next_offset
            head, records = client.pull(_request(group, start))
    except TopicNotFound:  # nothing was given up yet, or the group is gone
        return 0, True
    if head.status == PullStatus.OFFSET_ILLEGAL:  # cut again just now: the next tick looks
        return 0, True
    passed_count = head.next_offset - start
    place.next_offset = head.next_offset
    unseen_count = lost_count + passed_count - len(records)  # of those some may be damaged
    if records or unseen_count:
        record_tallies(
            group.namespace, group.name, tally(records), now_ms, unseen_count=unseen_count
        )
    if unseen_count:
        log.warning(
            "Dead letters expired before they were counted",
            extra={"action": "dead_letters_uncounted", "group": group.name, "count": unseen_count},
        )
    place.scanned_ms = now_ms
    place.save(update_fields=["next_offset", "scanned_ms"])
    return passed_count, head.next_offset >= head.max_offset


def _waiting(client: StoreClient) -> list[_Waiting]:
    """Groups with letters that were not counted, those that wait longest first. Two queries."""
    rows = ConsumerGroup.objects.filter(namespace__shard=client.shard)
    groups = list(rows.select_related("namespace").order_by("id")[:GROUPS_MAX])
    places = {
        (namespace_id, name): (next_offset, scanned_ms)
        for namespace_id, name, next_offset, scanned_ms in ScanPlace.objects.values_list(
            "namespace_id", "group_name", "next_offset", "scanned_ms"
        )
    }
    found = []
    for group, max_offset in _ends(client, groups):
        next_offset, scanned_ms = places.get((group.namespace_id, group.name), (NOWHERE, 0))
        if max_offset != next_offset and max_offset > 0:
            found.append(_Waiting(group, scanned_ms))
    return sorted(found, key=lambda each: (each.scanned_ms, each.group.pk))


def _ends(client: StoreClient, groups: list[ConsumerGroup]) -> Iterator[tuple[ConsumerGroup, int]]:
    """Each with the end of its DLQ."""
    for start in range(0, len(groups), COUNTED_AT_ONCE):
        some = groups[start : start + COUNTED_AT_ONCE]
        request = DeadLettersRequest(groups=[group.engine_name for group in some])
        for group, count in zip(some, client.dead_letters(request).counts, strict=True):
            yield group, count.max_offset


def _locked_place(group: ConsumerGroup) -> ScanPlace | None:
    """None where another worker has it."""
    mine = {"namespace_id": group.namespace_id, "group_name": group.name}
    ScanPlace.objects.bulk_create([ScanPlace(**mine)], ignore_conflicts=True)
    return ScanPlace.objects.select_for_update(skip_locked=True).filter(**mine).first()


def _request(group: ConsumerGroup, offset: int) -> PullRequest:
    return PullRequest(
        topic=dlq_topic_of(group.engine_name),
        queue_id=0,
        queue_offset=offset,
        messages_max=BATCH_LETTERS,
        bytes_max=BATCH_BYTES_MAX,
        shows_gone=True,
    )
