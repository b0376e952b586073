"""``mqservice browse`` against a service that does what the test tells it."""

from __future__ import annotations

from urllib.parse import parse_qs

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, Json, problem, service_double


def stored(number: int, **fields: object) -> Json:
    return {
        "id": f"{number:02X}",
        "tag": None,
        "keys": [],
        "message_group": None,
        "properties": {},
        "queue": 1,
        "offset": number,
        "born_at": "2026-11-21T09:00:00.000Z",
        "stored_at": "2026-11-21T09:00:00.001Z",
        "body": f"body{number}",
        **fields,
    }


def page(*messages: Json, cursor: str | None = None) -> Answer:
    return Answer(200, {"messages": messages, "next_cursor": cursor, "is_complete": True})


async def test_browse_walks_pages_and_says_that_there_is_more() -> None:
    async with service_double() as double:
        double.answers += [
            page(stored(1, tag="t", keys=["k1", "k2"]), stored(2), cursor="c 1"),
            page(cursor="c2"),
            page(stored(3, body="two\nlines \x1b[31m"), stored(4), cursor="c3"),
        ]
        ended = await mqservice(
            *("browse", "orders", "--limit", "3", "--from", "2026-11-21T09:00:00+01:00"),
            *("--to", "t2", "--tag", "a || b", "--queue", "1"),
            *("--filter", "n > 5", "--contains", "ö & x"),
            double=double,
        )
        assert ended.code == 0
        assert ended.out.decode().splitlines() == [
            "2026-11-21T09:00:00.001Z  1:1  01  t  k1,k2  body1",
            "2026-11-21T09:00:00.001Z  1:2  02  -  -  body2",
            "2026-11-21T09:00:00.001Z  1:3  03  -  -  two lines \\x1b[31m",
        ]
        assert "more than these 3" in ended.line
        assert {request.path for request in double.requests} == {"/v1/ns/-/topics/orders/messages"}
        asked = {
            "from": ["2026-11-21T09:00:00+01:00"],
            "to": ["t2"],
            "tag": ["a || b"],
            "queue": ["1"],
            "sql": ["n > 5"],
            "contains": ["ö & x"],
        }
        assert [parse_qs(request.query) for request in double.requests] == [
            {**asked, "limit": ["4"]},
            {**asked, "limit": ["2"], "cursor": ["c 1"]},
            {**asked, "limit": ["2"], "cursor": ["c2"]},
        ]


async def test_browse_by_key_and_offset_asks_for_them() -> None:
    async with service_double() as double:
        double.answers += [page(), page()]
        found = await mqservice("browse", "orders", "-k", "a&b", double=double)
        placed = await mqservice(
            "browse", "orders", "--queue", "0", "--offset", "7", "-n", "acme", double=double
        )
        assert (found.code, found.out, found.line) == (0, b"", "message not found")
        assert placed.code == 0
        assert [parse_qs(request.query) for request in double.requests] == [
            {"key": ["a&b"], "limit": ["33"]},
            {"queue": ["0"], "offset": ["7"], "limit": ["33"]},
        ]


async def test_browse_json_writes_what_produce_reads() -> None:
    async with service_double() as double:
        forms = [
            stored(1, tag="t", properties={"p": "q"}),
            {**stored(2), "body_b64": "/wA="},
            {**stored(3), "body_json": [1, 2]},
        ]
        for form in forms[1:]:
            del form["body"]
        double.answers.append(page(*forms))
        written = await mqservice("browse", "orders", "-o", "ndjson", double=double)
        assert (written.code, written.err) == (0, "")
        assert [msgspec.json.decode(line)["offset"] for line in written.out.splitlines()] == [
            1,
            2,
            3,
        ]
        await mqservice("produce", "copy", double=double, stdin=written.out)
        assert double.stored == [
            {"body": "body1", "tag": "t", "properties": {"p": "q"}},
            {"body_b64": "/wA="},
            {"body": "[1,2]"},
        ]


async def test_browse_of_an_id_shows_the_whole_body() -> None:
    async with service_double() as double:
        body = "x" * 500 + "\nend"
        double.answers += [Answer(200, stored(1, body=body)), problem(404, "MESSAGE_NOT_FOUND")]
        shown = await mqservice("browse", "orders", "--id", "01/AC", double=double)
        absent = await mqservice("browse", "orders", "--id", "02", double=double)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.decode().endswith(f"  -  -  {body}\n")
        assert double.requests[0].path == "/v1/ns/-/topics/orders/messages/01/AC"
        assert absent.code == 1
        assert absent.line.startswith("error: MESSAGE_NOT_FOUND (HTTP 404)")


async def test_browse_refuses_what_makes_no_sense() -> None:
    async with service_double() as double:
        both = await mqservice("browse", "orders", "--id", "01", "--tag", "t", double=double)
        double.answers.append(Answer(200, {"messages": [{"id": "1"}], "next_cursor": None}))
        strange = await mqservice("browse", "orders", double=double)
        assert both.code == 2
        assert "--id selects one message" in both.line
        assert strange.code == 1
        assert "not have the documented form" in strange.line


async def test_search_sends_its_text_and_shows_what_it_finds() -> None:
    async with service_double() as double:
        double.answers += [
            page(stored(2, topic="orders"), cursor="c"),
            page(stored(1)),
            page(stored(3, topic="orders")),
        ]
        found = await mqservice(
            "search", 'topic:orders body:"a & b" n > 5', "--oldest-first", double=double
        )
        written = await mqservice("search", "group:billing", "-o", "ndjson", double=double)

    assert (found.code, len(found.out.decode().splitlines())) == (0, 2)
    assert msgspec.json.decode(written.out)["topic"] == "orders"
    assert double.requests[0].path == "/v1/ns/-/messages"
    assert parse_qs(double.requests[1].query) == {
        "q": ['topic:orders body:"a & b" n > 5'],
        "order": ["oldest"],
        "limit": ["32"],
        "cursor": ["c"],
    }
