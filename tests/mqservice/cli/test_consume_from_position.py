"""``consume --from``: a topic from a place on, without a group or with a group moved there."""

from __future__ import annotations

from urllib.parse import parse_qs

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import (
    Answer,
    Json,
    Pushed,
    ServiceDouble,
    problem,
    service_double,
)

TOPIC = Answer(
    200,
    {
        "name": "orders",
        "queue_offsets": [
            {"queue": 0, "min_offset": 5, "max_offset": 8},
            {"queue": 1, "min_offset": 0, "max_offset": 1},
        ],
    },
)


def page(*bodies: str, queue: int, first: int) -> Answer:
    messages: list[Json] = [
        {"id": f"0{first + place}", "queue": queue, "offset": first + place, "body": body}
        for place, body in enumerate(bodies)
    ]
    return Answer(
        200, {"status": "FOUND", "messages": messages, "next_offset": first + len(bodies)}
    )


def asked(double: ServiceDouble) -> list[tuple[str, str]]:
    """Queue and offset of each pull."""
    pulls = [each for each in double.requests if each.path.endswith("/messages")]
    return [(each.path.split("/")[-2], parse_qs(each.query)["offset"][0]) for each in pulls]


async def test_from_the_beginning_reads_every_queue_and_continues() -> None:
    async with service_double() as double:
        double.answers += [
            TOPIC, page("a", "b", "c", queue=0, first=5), page("d", queue=1, first=0),
            page("e", queue=0, first=8),
        ]  # fmt: skip
        ended = await mqservice(
            *("consume", "orders", "--from", "beginning", "--count", "5"),
            *("--format", r"%p:%o %s\n"),
            double=double,
        )
        assert (ended.code, ended.out) == (0, b"0:5 a\n0:6 b\n0:7 c\n1:0 d\n0:8 e\n")
        assert ended.line == "5 read; no group was changed"
        assert asked(double) == [("0", "5"), ("1", "0"), ("0", "8")]
        assert {each.method for each in double.requests} == {"GET"}


@pytest.mark.parametrize(
    ("place", "offsets"),
    [
        ("end", ["8", "1"]),
        ("latest", ["8", "1"]),
        ("earliest", ["5", "0"]),
        ("6", ["6", "1"]),
        ("0", ["5", "0"]),
        ("-2", ["6", "0"]),
        ("-100", ["5", "0"]),
    ],
)
async def test_places_are_kept_within_what_a_queue_has(place: str, offsets: list[str]) -> None:
    async with service_double() as double:
        double.answers += [TOPIC, page(queue=0, first=8), page("x", queue=1, first=1)]
        ended = await mqservice(
            "consume", "orders", f"--from={place}", "--count", "1", "-q", double=double
        )
        assert (ended.code, ended.out) == (0, b"x\n")
        assert [offset for _, offset in asked(double)] == offsets


async def test_a_time_is_asked_for_in_each_queue() -> None:
    async with service_double() as double:
        double.answers += [
            TOPIC, Answer(200, {"offset": 7, "min_offset": 5, "max_offset": 8}),
            page("x", queue=0, first=7),
        ]  # fmt: skip
        ended = await mqservice(
            *("consume", "orders", "--from", "2026-11-21T09:00:00Z", "--queue", "0"),
            *("--count", "1", "-o", "json"),
            double=double,
        )
        assert ended.code == 0, ended.err
        assert double.requests[1].query == "time=2026-11-21T09%3A00%3A00%2B00%3A00"
        assert [line["body"] for line in msgspec.json.decode(ended.out)] == ["x"]


async def test_a_break_in_between_is_waited_out_and_a_refusal_is_not() -> None:
    async with service_double() as double:
        queue = Answer(200, {"queue_offsets": [{"queue": 0, "min_offset": 0, "max_offset": 9}]})
        busy = problem(503, "STORE_UNAVAILABLE", retryable=True, retry_after_ms=1)
        double.answers += [
            queue,
            busy,
            page("x", queue=0, first=0),
            problem(404, "TOPIC_NOT_FOUND"),
        ]
        ended = await mqservice("consume", "orders", "--from", "beginning", double=double)
        assert (ended.code, ended.out) == (1, b"x\n")
        assert "trying again in" in ended.err
        assert "mqservice topic create" in ended.err


async def test_idle_exit_ends_and_a_short_count_is_reported() -> None:
    async with service_double() as double:
        queue = Answer(200, {"queue_offsets": [{"queue": 0, "min_offset": 0, "max_offset": 0}]})
        double.answers += [queue, *[page(queue=0, first=0)] * 9]
        ended = await mqservice(
            *("consume", "orders", "--from", "end", "--count", "1", "--idle-exit", "1ms"),
            *("-o", "json"),
            double=double,
        )
        assert (ended.code, ended.out) == (1, b"[]\n")
        assert "only 0 of 1 messages were received" in ended.err


async def test_with_a_group_the_group_is_moved_first() -> None:
    moved = {
        "group": "g", "topic": "orders", "skipped": 0, "replayed": 3, "queues": [],
        "retry": {"waiting": 0, "scheduled": 0},
    }  # fmt: skip
    for place, order in (
        (("--from", "beginning"), {"to": "earliest"}),
        (("--from", "end", "--queue", "1"), {"to": "latest", "queues": [1]}),
        (("--from", "7", "--queue", "1"), {"to": {"offset": 7, "queue": 1}}),
    ):
        async with service_double() as double:
            double.answers.append(Answer(200, moved))
            double.backlog = [Pushed("0A", b"x")]
            ended = await mqservice(
                "consume", "orders", "-g", "g", "--ack", "--count", "1", *place, double=double
            )
            assert (ended.code, ended.out) == (0, b"x\n"), ended.err
            assert double.requests[0].path == "/v1/ns/-/groups/g:seek"
            sent = msgspec.json.decode(double.requests[0].body)
            assert sent == {"topic": "orders", **order, "dry_run": False}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--from", "yesterday"), "is not a valid position"),
        (("--from", "2026-11-21T09:00:00"), "is not a valid position"),
        (("--from", "end", "--ack"), "require --group"),
        (("--from", "end", "--sql", "a > 1"), "require --group"),
        (("--from", "-5", "-g", "g"), "group seek"),
        (("--from", "5", "-g", "g"), "one --queue"),
        (("--queue", "1", "-g", "g"), "--queue requires --from"),
        (("--from", "end", "--format", "%x"), "no placeholder"),
    ],
)
async def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    ended = await mqservice("consume", "orders", *arguments)
    assert ended.code == 2
    assert complaint in ended.line


async def test_a_queue_that_the_topic_lacks_is_refused() -> None:
    async with service_double() as double:
        double.answers.append(TOPIC)
        ended = await mqservice("consume", "orders", "--from", "end", "--queue", "7", double=double)
        assert ended.code == 2
        assert "orders has no queue 7" in ended.line
