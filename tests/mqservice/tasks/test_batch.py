"""What is counted and listed for each answer of the engine."""

from __future__ import annotations

from collections import deque
from typing import cast

from mqservice.store import RedriveOutcome, RedriveReply, RedriveRequest, StoreClient
from mqservice.tasks.batch import Batch, Result, encode_note, read_note, send
from mqservice.tasks.models import FailureOutcome, TaskKind
from mqservice.tasks.walk import DeadLetterRef

MOVED, GONE, LATER = RedriveOutcome.MOVED, RedriveOutcome.GONE, RedriveOutcome.LATER
NO_TOPIC, DAMAGED = RedriveOutcome.NO_TOPIC, RedriveOutcome.DAMAGED


class Engine:
    """Answers as it was told to, once for each request."""

    def __init__(self, *answers: list[RedriveOutcome]) -> None:
        self.answers = deque(answers)
        self.asked: list[list[int]] = []

    def redrive(self, request: RedriveRequest) -> RedriveReply:
        self.asked.append(request.queue_offsets)
        return RedriveReply(outcomes=self.answers.popleft())


def sent(engine: Engine, *spots: DeadLetterRef, is_repeated: bool = False) -> Result:
    batch = Batch(spots=list(spots), place=None, looked_count=0)
    assert read_note(encode_note(batch)) == batch
    client = cast(StoreClient, engine)
    return send(client, TaskKind.REDRIVE, "acme%g", "", batch, is_repeated=is_repeated)


def test_each_message_that_stays_is_listed_with_its_reason() -> None:
    spots = [
        DeadLetterRef("a", 1),
        DeadLetterRef("b", 2),
        DeadLetterRef("c", 3),
        DeadLetterRef("d", 4),
        DeadLetterRef("e", None),
    ]
    result = sent(Engine([MOVED, NO_TOPIC, DAMAGED, GONE]), *spots)
    assert (result.moved_count, result.skipped_count, result.failed_count) == (1, 1, 3)
    assert result.failures == [
        (spots[4], FailureOutcome.NOT_FOUND),
        (spots[1], FailureOutcome.NO_TOPIC),
        (spots[2], FailureOutcome.DAMAGED),
        (spots[3], FailureOutcome.GONE),
    ]


def test_what_did_not_fit_is_asked_for_again_until_it_did() -> None:
    engine = Engine([MOVED, LATER, MOVED, LATER], [MOVED, LATER], [NO_TOPIC])
    result = sent(engine, *[DeadLetterRef(str(offset), offset) for offset in range(4)])
    assert engine.asked == [[0, 1, 2, 3], [1, 3], [3]]
    assert (result.moved_count, result.failed_count) == (3, 1)


def test_offset_without_a_message_counts_only_when_it_is_damaged() -> None:
    for is_repeated in (False, True):
        result = sent(
            Engine([GONE, DAMAGED]),
            DeadLetterRef("", 1),
            DeadLetterRef("", 2),
            is_repeated=is_repeated,
        )
        assert (result.moved_count, result.skipped_count, result.failed_count) == (0, 0, 1)


def test_what_a_repetition_finds_gone_was_moved_the_first_time() -> None:
    result = sent(
        Engine([GONE, MOVED]), DeadLetterRef("a", 1), DeadLetterRef("b", 2), is_repeated=True
    )
    assert (result.moved_count, result.skipped_count, result.failures) == (2, 0, [])
