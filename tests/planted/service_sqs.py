"""Bugs of the SQS face."""

from __future__ import annotations

from typing import Final

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Amazon SQS", PLANTS)

_TESTS: Final = "tests/mqservice/sqs"


@planted(
    "mqservice.sqs.queue_names:_own",
    f"{_TESTS}/test_queues.py::test_a_key_reaches_its_own_namespace_only",
)
def account_of_a_url_ignored(real: Real, queue: Thing, principal: Thing) -> Thing:
    return queue


@planted(
    "mqservice.sqs.queues:require_queue",
    f"{_TESTS}/test_queues.py::test_a_fifo_queue_has_one_name",
)
def fifo_queue_with_two_names(real: Real, request: Thing, route: Thing) -> None:
    return


@planted(
    "mqservice.sqs.letters:_split",
    f"{_TESTS}/test_queues.py::test_dead_letters_are_received_from_the_queue_that_is_named",
)
def dead_letters_settled_by_the_queue(real: Real, request: Thing) -> list[Thing]:
    return [request]


@planted(
    "mqservice.sqs.asked:Asked.changing",
    f"{_TESTS}/test_queues.py::test_a_read_only_namespace_takes_messages_and_no_changes",
)
def read_only_namespace_changed_by_sqs(real: Real, asked: Thing) -> None:
    return


@planted(
    "storage_engine.dedup.dedup:DedupIndex.add",
    "tests/storage_engine/dedup/test_idempotent_puts.py"
    "::test_a_recreated_topic_knows_its_own_keys_only",
)
def key_of_a_deleted_topic_remembered(
    real: Real, index: Thing, key_hash: Thing, stored: Thing, age_ms: int = 0
) -> Thing:
    return index.find(key_hash) is None and real(index, key_hash, stored, age_ms)
