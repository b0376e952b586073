"""One batch of a task: its plan is saved, then carried out by the engine, then counted.

    Page ──▶ Batch ── noted in the row ──▶ send ── REDRIVE or PURGE ──▶ Result ── saved in the row
                           └─── read again after a worker died ──▶ send, as a repetition

The engine moves a message once, however often it is asked. The note is for the counting: what a
repetition finds gone is what the first attempt has moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from mqservice.store import PurgeRequest, RedriveOutcome, RedriveRequest, StoreClient
from mqservice.tasks.models import FailureOutcome, TaskKind
from mqservice.tasks.walk import DeadLetterRef, Page

_FAILURES = {
    RedriveOutcome.NO_TOPIC: FailureOutcome.NO_TOPIC,
    RedriveOutcome.DAMAGED: FailureOutcome.DAMAGED,
}


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """``place`` and ``looked_count`` are the walk's after it."""

    spots: list[DeadLetterRef]
    place: str | None
    looked_count: int


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of a batch."""

    moved_count: int = 0
    skipped_count: int = 0
    failed_count: int = 0
    failures: list[tuple[DeadLetterRef, FailureOutcome]] = field(default_factory=list)

    def skip(self, spot: DeadLetterRef) -> None:
        self.skipped_count += 1
        self.failures.append((spot, FailureOutcome.GONE))

    def fail(self, spot: DeadLetterRef, outcome: FailureOutcome) -> None:
        self.failed_count += 1
        self.failures.append((spot, outcome))


def batch_of(page: Page) -> Batch:
    return Batch(spots=page.spots, place=page.place, looked_count=page.looked_count)


def encode_note(batch: Batch) -> Any:  # Any: what a JSON column takes
    return msgspec.to_builtins(batch)


def read_note(document: Any) -> Batch:  # Any: what a JSON column gives
    return msgspec.convert(document, Batch)


def send(
    client: StoreClient, kind: TaskKind, group: str, target: str, batch: Batch, *, is_repeated: bool
) -> Result:
    """Do the batch. A call to the engine, or a few when one append does not take it all.

    Args:
        group, target: full names; an empty target is the topic that each came from.
        is_repeated: whether it may have been sent before.

    Raises ``StoreError``; then it may have been done in part, and is to be repeated.
    """
    result = Result()
    spots: dict[int, DeadLetterRef] = {}
    for spot in batch.spots:
        if spot.queue_offset is None:
            result.fail(spot, FailureOutcome.NOT_FOUND)
        else:
            spots[spot.queue_offset] = spot
    if not spots:
        return result
    if kind is TaskKind.PURGE:
        _purge(client, group, spots, result, is_repeated=is_repeated)
    else:
        _redrive(client, group, target, spots, result, is_repeated=is_repeated)
    return result


def _redrive(
    client: StoreClient,
    group: str,
    target: str,
    spots: dict[int, DeadLetterRef],
    result: Result,
    *,
    is_repeated: bool,
) -> None:
    offsets = list(spots)
    while offsets:
        request = RedriveRequest(group=group, queue_offsets=offsets, topic=target)
        outcomes = client.redrive(request).outcomes
        later = []
        for offset, outcome in zip(offsets, outcomes, strict=True):
            spot = spots[offset]
            if outcome is RedriveOutcome.LATER:
                later.append(offset)
            elif outcome is RedriveOutcome.MOVED:
                result.moved_count += 1
            elif outcome is not RedriveOutcome.GONE:
                result.fail(spot, _FAILURES[outcome])
            elif not spot.message_id:
                continue  # it was gone before the task saw it
            elif is_repeated:
                result.moved_count += 1
            else:
                result.skip(spot)
        assert len(later) < len(offsets), "an append takes one message at least"
        offsets = later


def _purge(
    client: StoreClient,
    group: str,
    spots: dict[int, DeadLetterRef],
    result: Result,
    *,
    is_repeated: bool,
) -> None:
    purged_count = client.purge(PurgeRequest(group=group, queue_offsets=list(spots))).purged_count
    seen_count = sum(1 for spot in spots.values() if spot.message_id)
    if is_repeated:
        purged_count = max(purged_count, seen_count)
    result.moved_count += purged_count
    # Which ones somebody else took meanwhile the engine does not say.
    result.skipped_count += max(0, seen_count - purged_count)
