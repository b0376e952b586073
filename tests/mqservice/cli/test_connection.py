"""``mqservice connection``: open sockets are listed and ended."""

from __future__ import annotations

import msgspec

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, service_double

CONNECTION = {
    "id": "s_1", "actor": "key:abc", "address": "10.0.0.7", "protocol": "mq.v1.json",
    "user_agent": "agent\u001b[31m", "client": None, "connected_at": "2026-11-22T09:00:00.000Z",
    "published": 3, "subscriptions": [
        {"sid": 1, "topic": "orders", "group": "billing", "consumer": "c", "filter": None,
         "delivered": 41, "held": 2, "credit_messages": 0, "credit_bytes": 9, "flow": "credit"},
        {"sid": 2, "topic": "orders", "group": "audit", "consumer": "d", "filter": None,
         "delivered": 1, "held": 0, "credit_messages": 5, "credit_bytes": 9, "flow": "open"},
    ],
}  # fmt: skip


async def test_sockets_are_listed_and_what_is_missing_is_reported() -> None:
    async with service_double() as double:
        page = {"total": 2, "complete": False, "connections": [CONNECTION]}
        double.answers += [Answer(200, page), Answer(200, page)]
        table = await mqservice("connection", "list", double=double)
        assert table.code == 0, table.err
        assert {b"10.0.0.7", b"billing", b"audit", b"42"} <= set(table.out.split())
        assert b"\x1b[31m" not in table.out
        assert "not all web processes have replied" in " ".join(table.err.split())
        lines = await mqservice("connection", "list", "-o", "ndjson", double=double)
        assert msgspec.json.decode(lines.out)["id"] == "s_1"


async def test_socket_is_ended_by_its_id() -> None:
    async with service_double() as double:
        double.answers += [
            Answer(200, {"disconnected": True}),
            Answer(200, {"disconnected": False}),
        ]
        ended = await mqservice("connection", "end", "s_1", double=double)
        gone = await mqservice("connection", "end", "s_1", double=double)
        assert (ended.code, gone.code) == (0, 1)
        assert {(each.method, each.path) for each in double.requests} == {
            ("DELETE", "/v1/ns/-/connections/s_1")
        }
