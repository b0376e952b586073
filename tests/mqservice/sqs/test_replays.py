"""Which signatures a process remembers, and for how long it takes the same one again."""

from __future__ import annotations

from random import Random

from mqservice.sqs.replays import REPEAT_MS_MAX, SeenSignatures

SLOTS = 8


def signatures(count: int) -> list[int]:
    random = Random(7)
    return [random.getrandbits(256) for _ in range(count)]


def test_a_signature_is_late_once_it_was_seen_long_ago() -> None:
    seen = SeenSignatures(SLOTS)
    (one,) = signatures(1)

    assert not seen.is_late(one, 5_000)
    assert not seen.is_late(one, 5_000 + REPEAT_MS_MAX)
    assert seen.is_late(one, 6_000 + REPEAT_MS_MAX)
    assert seen.is_late(one, 5_000 + 900_000), "a repetition does not begin it anew"


def test_the_counter_of_seconds_may_run_over() -> None:
    seen = SeenSignatures(SLOTS)
    (one,) = signatures(1)
    last_ms = ((1 << 20) - 1) * 1_000

    assert not seen.is_late(one, last_ms)
    assert not seen.is_late(one, last_ms + 2_000)
    assert seen.is_late(one, last_ms + 900_000)


def test_others_are_never_taken_for_one_that_was_seen() -> None:
    seen = SeenSignatures(SLOTS)
    for number, each in enumerate(signatures(2_000)):
        assert not seen.is_late(each, number * 1_000)


def test_of_two_with_one_slot_the_latest_is_remembered() -> None:
    seen = SeenSignatures(SLOTS)
    one = signatures(1)[0]
    other = one ^ (1 << 100)

    seen.is_late(one, 0)
    seen.is_late(other, 60_000)

    assert seen.is_late(other, 120_000)
    assert not seen.is_late(one, 120_000)


def test_nothing_is_allocated_before_it_is_needed() -> None:
    seen = SeenSignatures()
    assert len(seen._table) == 0
    seen.is_late(signatures(1)[0], 0)
    assert len(seen._table) * seen._table.itemsize == 4 << 20
