"""``mqservice drill failover``: what it counts, and what it calls lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.mqservice.cli.commands import Ended, mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

TOPIC = {"name": "failover-drill", "queues": 1}


def stored(number: int, offset: int) -> Answer:
    place = {"id": f"ID{number}", "queue": 0, "offset": offset, "durability": "replicated"}
    return Answer(201, place)


def page(*offsets: tuple[int, int]) -> Answer:
    """Messages by number and offset, read at the end."""
    messages = [
        {"id": f"ID{number}", "queue": 0, "offset": offset, "body": "x"}
        for number, offset in offsets
    ]
    return Answer(
        200,
        {
            "status": "FOUND", "min_offset": 0, "max_offset": 99, "next_offset": 99,
            "messages": messages,
        },
    )  # fmt: skip


async def drill(answers: Sequence[Answer], count: int) -> Ended:
    async with service_double() as double:
        double.answers.extend(answers)
        ended = await mqservice("drill", "failover", "--count", str(count), double=double)
        assert not double.answers
    return ended


def rows(ended: Ended) -> dict[str, str]:
    pairs = [line.rsplit("  ", 1) for line in ended.out.decode().splitlines() if "  " in line]
    return {name.strip(): value.strip() for name, value in pairs}


async def test_refusals_cost_nothing_and_all_that_was_acknowledged_is_there() -> None:
    away = problem(503, "ENGINE_UNAVAILABLE", stored=False)
    unknown = problem(503, "OUTCOME_UNKNOWN", stored=None)
    ended = await drill(
        [
            problem(404, "TOPIC_NOT_FOUND"), Answer(201, TOPIC), stored(1, 4), away, unknown,
            stored(2, 6), page((1, 4), (9, 5), (2, 6)),
        ],
        4,
    )  # fmt: skip
    found = rows(ended)
    assert ended.code == 0, ended.err
    assert found["acknowledged"] == "2 (replicated)"
    assert (found["rejected"], found["outcome unknown"]) == ("1", "1")
    assert found["acknowledged and lost"] == "0"


@pytest.mark.parametrize(
    ("at_the_end", "lost", "misplaced"),
    [(page((1, 4)), "1", "0"), (page((2, 4), (1, 5)), "0", "2"), (page((1, 4), (2, 9)), "0", "1")],
)
async def test_what_is_lost_or_elsewhere_fails_the_drill(
    at_the_end: Answer, lost: str, misplaced: str
) -> None:
    ended = await drill([Answer(200, TOPIC), stored(1, 4), stored(2, 5), at_the_end], 2)
    found = rows(ended)
    assert ended.code == 1
    assert found["acknowledged and lost"] == lost
    assert found["at another place, or out of order"] == misplaced


async def test_a_drill_that_stored_nothing_says_so() -> None:
    ended = await drill([Answer(200, TOPIC), problem(503, "ENGINE_UNAVAILABLE", stored=False)], 1)
    assert ended.code == 1
    assert "no message was stored" in ended.err
