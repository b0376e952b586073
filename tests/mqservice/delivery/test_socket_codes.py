"""How sockets are refused: by number, and with close codes where HTTP cannot tell."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from mqservice.delivery.http import Message
from mqservice.delivery.sessions import SocketLimits
from mqservice.delivery.socket.consumer import is_failure
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until

LIMITS = SocketLimits(sockets_max=3, tenant_sockets_max=2)


def refused(server: Server, key: str) -> tuple[int, str | None]:
    with pytest.raises(InvalidStatus) as caught:
        Peer(server, key=key)
    response = caught.value.response
    return response.status_code, response.headers.get("retry-after")


def test_so_many_sockets_of_a_tenant_and_in_all_and_then_again() -> None:
    with serving(StoreDouble(), limits=LIMITS) as server, contextlib.ExitStack() as stack:
        mine, others = server.key(), server.key(tenant_id=2)
        first = stack.enter_context(Peer(server, key=mine))
        stack.enter_context(Peer(server, key=mine))
        assert refused(server, mine) == (429, "1")
        stack.enter_context(Peer(server, key=others))
        assert refused(server, others) == (503, "1")

        first.__exit__(None, None, None)
        wait_until(lambda: server.context.sessions.socket_count == 2)
        stack.enter_context(Peer(server, key=mine))
        assert server.context.sessions.socket_count == 3


def test_sockets_that_were_refused_are_not_counted() -> None:
    with serving(StoreDouble(), limits=LIMITS) as server:
        for _ in range(5):
            with pytest.raises(InvalidStatus):
                Peer(server, key="Bearer nonsense")
            with pytest.raises(InvalidStatus):
                Peer(server, key=server.key(namespace=None))
        assert server.context.sessions.socket_count == 0


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("key", 4401),
        ("namespace", 4404),
        ("subprotocol", 4400),
        ("path", 4404),
        ("tenant", 4429),
        ("process", 1013),
        ("drain", 1013),
    ],
)
async def test_a_server_that_cannot_answer_an_upgrade_closes_with_a_code(
    why: str, code: int
) -> None:
    limits = {
        "tenant": SocketLimits(tenant_sockets_max=0),
        "process": SocketLimits(sockets_max=0),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    with serving(StoreDouble(), limits=limits.get(why)) as server:
        key = server.key()
        scope: dict[str, Any] = {
            "type": "websocket",
            "path": "/v1/other" if why == "path" else "/v1/ws",
            "query_string": b"ns=other" if why == "namespace" else b"",
            "headers": [(b"authorization", b"Bearer no" if why == "key" else key.encode())],
            "subprotocols": ["mq.v9"] if why == "subprotocol" else [],
            "client": None,
        }
        if why == "drain":
            server.call(server.context.drain.start)
        await server.application(scope, receive, send)

    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.close"]
    assert sent[1]["code"] == code
    assert server.context.sessions.socket_count == 0


@pytest.mark.parametrize(
    ("disconnect", "expected"),
    [
        ({"code": 1000, "reason": ""}, False),
        ({"code": 1001, "reason": "going away"}, False),
        ({"code": 1005, "reason": ""}, False),  # a close frame without a code
        ({"code": 4000, "reason": "restarting"}, False),
        ({"code": 1012}, False),  # the server's own stop
        ({"code": 1005}, True),  # so uvicorn says that the connection was lost
        ({"code": 1006}, True),
        ({}, True),
        ({"code": 1002, "reason": ""}, True),
        ({"code": 1007, "reason": ""}, True),
        ({"code": 1009, "reason": "message too big"}, True),
        ({"code": 1011, "reason": ""}, True),
    ],
)
def test_only_a_client_that_did_not_leave_in_order_has_failed(
    disconnect: Message, expected: bool
) -> None:
    assert is_failure(disconnect) is expected
