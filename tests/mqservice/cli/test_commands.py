"""The commands as users run them: own processes, real pipes, exit codes, one line for an error."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import (
    Answer,
    Pushed,
    problem,
    service_double,
)

# produce ------------------------------------------------------------------------------------------


async def test_produce_of_one_text_prints_its_id() -> None:
    async with service_double() as double:
        ended = await mqservice(
            *("produce", "orders", "hello", "--tag", "t", "-k", "k1", "--property", "a=b=c"),
            double=double,
        )
        assert (ended.code, ended.out, ended.err) == (0, b"%034X\n" % 1, "")
        assert double.stored == [
            {"body": "hello", "tag": "t", "keys": ["k1"], "properties": {"a": "b=c"}}
        ]


async def test_produce_keeps_argument_bytes_that_are_no_utf8() -> None:
    async with service_double() as double:
        ended = await mqservice("produce", "orders", os.fsdecode(b"\xff\x01"), double=double)
        assert ended.code == 0
        assert double.stored == [{"body_b64": "/wE="}]


async def test_produce_file_is_one_message_byte_for_byte(tmp_path: Path) -> None:
    async with service_double() as double:
        (tmp_path / "body").write_bytes(b"line one\r\n\x00\xff\n")
        ended = await mqservice("produce", "orders", "-f", str(tmp_path / "body"), double=double)
        assert ended.code == 0
        assert double.stored == [{"body_b64": "bGluZSBvbmUNCgD/Cg=="}]


async def test_produce_ndjson_from_stdin_with_results() -> None:
    lines = b'{"body":"one","tag":"x"}\n\n{"body_b64":"/w=="}\n{"body_json":[1, 2]}'
    async with service_double() as double:
        ended = await mqservice(
            *("produce", "orders", "--tag", "common", "-o", "ndjson"), double=double, stdin=lines
        )
        assert ended.code == 0
        assert double.stored == [
            {"body": "one", "tag": "x"},
            {"body_b64": "/w==", "tag": "common"},
            {"body": "[1, 2]", "tag": "common"},
        ]
        printed = [msgspec.json.decode(line) for line in ended.out.splitlines()]
        assert [(line["number"], line["outcome"]) for line in printed] == [
            (1, "stored"),
            (2, "stored"),
            (3, "stored"),
        ]
        assert "3 stored" in ended.line


async def test_produce_lines_from_stdin_as_they_are() -> None:
    async with service_double() as double:
        ended = await mqservice(
            *("produce", "orders", "--format", "lines"), double=double, stdin=b"a\n{b\n\nc"
        )
        assert ended.code == 0
        assert [message["body"] for message in double.stored] == ["a", "{b", "c"]


async def test_produce_stops_at_a_bad_line_after_sending_those_before_it() -> None:
    async with service_double() as double:
        ended = await mqservice(
            "produce", "orders", double=double, stdin=b'{"body":"1"}\nhello\n{"body":"3"}\n'
        )
        assert ended.code == 2
        assert [message["body"] for message in double.stored] == ["1"]
        assert "1 stored" in ended.err
        assert "line 2: " in ended.err


async def test_produce_with_partial_failure_names_the_message_and_fails() -> None:
    async with service_double() as double:
        stored = {"id": "0A", "queue": 0, "offset": 1}
        refused = {"code": "ILLEGAL_KEY", "detail": "no", "retryable": False, "stored": False}
        results = [{"index": 0, **stored}, {"index": 1, **refused}]
        double.answers.append(Answer(207, {"results": results}))
        ended = await mqservice("produce", "orders", "a", "b", double=double)
        assert ended.code == 1
        assert "message 2 not stored: ILLEGAL_KEY: no" in ended.err
        assert "1 stored, 1 failed" in ended.err


async def test_produce_with_unknown_outcome_has_its_own_exit_code() -> None:
    async with service_double() as double:
        double.answers.append(problem(503, "OUTCOME_UNKNOWN", retryable=True))
        ended = await mqservice("produce", "orders", "a", double=double)
        assert ended.code == 3
        assert "message 1 outcome unknown: OUTCOME_UNKNOWN: because" in ended.err


async def test_produce_to_an_absent_topic_is_one_line() -> None:
    async with service_double() as double:
        double.answers.append(problem(404, "TOPIC_NOT_FOUND", detail="no \x1b[31mred here"))
        ended = await mqservice("produce", "nope", "a", double=double)
        assert ended.code == 1
        assert ended.line == (
            "error: TOPIC_NOT_FOUND (HTTP 404): no \\x1b[31mred here; create it with "
            "`mqservice topic create`, or see `mqservice topic list` [request R1]"
        )


async def test_nobody_listening_says_where_and_how_to_start() -> None:
    for command in (("produce", "t", "a"), ("consume", "t", "-g", "g"), ("topic", "list")):
        ended = await mqservice(*command)
        assert ended.code == 1
        assert "http://127.0.0.1:1: connection refused" in ended.line
        assert "mqservice up" in ended.line


async def test_command_lines_that_make_no_sense_exit_with_two() -> None:
    for arguments, complaint in (
        (("produce", "t", "a", "--property", "x"), "NAME=VALUE"),
        (("produce", "t", "a", "--property", "x=1", "-p", "x=2"), "given twice"),
        (("produce", "t", "a", "-f", "b"), "not both"),
        (("produce", "t", "a", "--format", "lines"), "--format is only for"),
        (("produce", "t", "-f", "/nonexistent/x"), "no such file"),
        (("consume", "t", "-g", "g", "--idle-exit", "5"), "not a duration"),
        (("consume", "t"), "--group"),
    ):
        ended = await mqservice(*arguments)
        assert ended.code == 2, arguments
        assert complaint in ended.line


async def test_without_a_key_the_command_says_how_to_give_one() -> None:
    ended = await mqservice("topic", "list", key="")
    assert ended.code == 2
    assert "--api-key" in ended.line


# consume ------------------------------------------------------------------------------------------


async def test_consume_writes_what_produce_reads() -> None:
    async with service_double() as double:
        double.backlog = [
            Pushed("0A", b"plain", tag="t"),
            Pushed("0B", b"\xff\x00", properties={"p": "q"}),
            Pushed("0C", "né\n".encode()),
        ]
        for protocol in ((), ("--json-frames",)):
            double.acked = []
            written = await mqservice(
                *("consume", "orders", "-g", "billing", "--ack", "--count", "3"),
                *("-o", "ndjson", *protocol),
                double=double,
            )
            assert written.code == 0
            assert written.line == "3 received, 3 acked"
            double.stored = []
            read = await mqservice("produce", "copy", double=double, stdin=written.out)
            assert read.code == 0
            assert double.stored == [
                {"body": "plain", "tag": "t"},
                {"body_b64": "/wA=", "properties": {"p": "q"}},
                {"body": "né\n"},
            ]


async def test_consume_raw_writes_nothing_but_bodies() -> None:
    async with service_double() as double:
        double.backlog = [Pushed("0A", b"\xff\n"), Pushed("0B", b"x")]
        ended = await mqservice(
            *("consume", "orders", "-g", "billing", "-o", "raw", "--idle-exit", "1s"),
            double=double,
        )
        assert (ended.code, ended.out) == (0, b"\xff\nx")
        assert double.acked == []


async def test_consume_that_gets_fewer_than_asked_for_fails() -> None:
    async with service_double() as double:
        double.backlog = [Pushed("0A", b"x")]
        ended = await mqservice(
            *("consume", "orders", "-g", "g", "--ack", "--count", "2", "--idle-exit", "1s"),
            double=double,
        )
        assert (ended.code, ended.out) == (1, b"x\n")
        assert "only 1 of 2 messages were received" in ended.err


async def test_consume_continues_after_a_restart_of_the_service() -> None:
    async with service_double() as double:
        double.backlog = [Pushed(f"{number:02X}", b"%d" % number) for number in range(6)]
        double.closes.append((3, 1012))
        ended = await mqservice(
            *("consume", "orders", "-g", "g", "--ack", "--count", "6", "--window", "2"),
            double=double,
        )
        assert (ended.code, ended.out) == (0, b"0\n1\n2\n3\n4\n5\n")
        assert "closed the connection with 1012" in ended.err
        assert "1 reconnects" in ended.err


# topic, engine ------------------------------------------------------------------------------------


async def test_topic_create_and_list() -> None:
    async with service_double() as double:
        topic = {
            "name": "orders", "namespace": "acme", "type": "mixed", "queues": 8,
            "durability": "async", "retention": "3d", "retention_ms": 259_200_000,
            "body_bytes_max": 4_194_304, "created_at": "2026-12-01T08:00:00.000Z",
            "updated_at": "2026-12-01T08:00:00.000Z",
        }  # fmt: skip
        double.answers.append(Answer(201, topic))
        created = await mqservice(
            *("topic", "create", "orders", "--queues", "8", "--durability", "async", "-n", "acme"),
            double=double,
        )
        assert created.code == 0
        assert double.requests[0].method == "PUT"
        assert double.requests[0].path == "/v1/ns/acme/topics/orders"
        assert msgspec.json.decode(double.requests[0].body) == {"queues": 8, "durability": "async"}
        second = {**topic, "name": "refunds"}
        columns = ("name", "queues", "durability", "type")
        pages = [
            Answer(200, {"topics": [topic], "next": "orders"}),
            Answer(200, {"topics": [second], "next": None}),
        ]
        double.answers.extend(pages * 2)
        table = await mqservice("topic", "list", double=double)
        assert b"orders" in table.out
        assert b"refunds" in table.out
        listed = await mqservice("topic", "list", "-o", "ndjson", double=double)
        assert [msgspec.json.decode(line) for line in listed.out.splitlines()] == [
            {name: each[name] for name in columns} for each in (topic, second)
        ]
        assert double.requests[-1].query == "after=orders"


async def test_topic_purge_shows_what_goes_and_asks() -> None:
    async with service_double() as double:
        found = {"topic": "orders", "messages": 1_200, "inflight": 3, "retries": 2, "queues": []}
        double.answers.extend([Answer(200, found)] * 4)
        shown = await mqservice("topic", "purge", "orders", "--dry-run", double=double)
        assert shown.code == 0
        assert "1,200 messages and 2 retries, 3 of them in flight" in shown.err
        declined = await mqservice("topic", "purge", "orders", double=double)
        assert declined.code == 1
        bodies = [request.body for request in double.requests]
        assert bodies == [b'{"dry_run":true}'] * 2
        done = await mqservice("topic", "purge", "orders", "--yes", double=double)
        assert done.code == 0
        assert "topic orders is empty" in done.err
        request = double.requests[-1]
        assert (request.method, request.body) == ("POST", b"")
        assert request.path == "/v1/ns/-/topics/orders:purge"


async def test_engine_dump_of_an_absent_file_fails_in_the_tools_own_words() -> None:
    ended = await mqservice("engine", "dump", "/nonexistent/file")
    assert ended.code != 0
    assert "/nonexistent/file" in ended.err
    assert "Traceback" not in ended.err
