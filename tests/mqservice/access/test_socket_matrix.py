"""Who may open a socket where: each kind of credential × own, foreign and absent namespaces."""

from __future__ import annotations

import asyncio

import pytest

from mqservice.delivery.http import Message
from tests.mqservice.access.test_matrix import DEAD
from tests.mqservice.access.world import World
from tests.people import People

WAIT_S = 60.0
# The code with which a server that cannot refuse by HTTP closes: 4401, 4404; 4400 asks for ``?ns``.
NAMESPACES = ("acme", "rival", "nowhere", "-")

SUBSCRIPTIONS = (
    ("owner", "acme", "acme", "ok"),
    ("consumer", "acme", "acme", "ok"),
    ("viewer", "acme", "acme", "FORBIDDEN"),
    ("narrow", "acme", "acme", "FORBIDDEN"),
    ("owner", "acme", "rival", "TOPIC_NOT_FOUND"),
    ("owner", "acme", "absent", "TOPIC_NOT_FOUND"),
    ("owner", "rival", "rival", "TOPIC_NOT_FOUND"),
    ("owner", "nowhere", "rival", "TOPIC_NOT_FOUND"),
    ("rival", "acme", "acme", "TOPIC_NOT_FOUND"),
)


def expected_of(who: str, ns: str) -> int | None:
    """The close code; None: the socket is open."""
    if who in DEAD:
        return 4401
    if ns == "-":
        return None if who == "bound" else 4400
    if who == "bound":
        return None if ns == "acme" else 4404
    # A key for all of a tenant may ask for any namespace; its topics are looked up by tenant.
    return None


async def opened(world: World, who: str, ns: str, commands: list[str]) -> list[Message]:
    """What the service sends over one socket."""
    headers = [(name.encode(), value.encode()) for name, value in world.credentials[who].items()]
    scope: Message = {
        "type": "websocket", "path": "/v1/ws", "query_string": f"ns={ns}".encode(),
        "headers": headers, "subprotocols": [], "client": ("127.0.0.1", 1),
    }  # fmt: skip
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    sent: list[Message] = []
    has_answered = asyncio.Event()
    incoming.put_nowait({"type": "websocket.connect"})
    for command in commands:
        incoming.put_nowait({"type": "websocket.receive", "text": command})

    async def send(message: Message) -> None:
        sent.append(message)
        is_last = message["type"] == "websocket.close" or len(sent) > len(commands)
        if is_last:
            has_answered.set()

    running = asyncio.ensure_future(world.application(scope, incoming.get, send))
    async with asyncio.timeout(WAIT_S):
        await has_answered.wait()
        incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await running
    return sent


async def test_each_handshake_is_answered_as_written(
    engine: str, people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, count = [], 0
    async with World(people).open() as world:
        for who in world.credentials:
            for ns in NAMESPACES:
                code = close_code(await opened(world, who, ns, []))
                count += 1
                if code != expected_of(who, ns):
                    wrong.append((who, ns, code, expected_of(who, ns)))
    with capsys.disabled():
        print(f"\nsocket matrix: {count} handshakes, {len(wrong)} wrong")
    assert wrong == []


def close_code(sent: list[Message]) -> int | None:
    """Of a refusal, which comes right after the handshake is taken."""
    return next((each["code"] for each in sent if each["type"] == "websocket.close"), None)


async def test_what_a_socket_may_subscribe_to(engine: str, people: People) -> None:
    async with World(people).open() as world:
        for who, ns, things, expected in SUBSCRIPTIONS:
            names = world.names[things]
            hello = '{"op":"hello","id":1}'
            topic, group = names["topic"], names["group"]
            subscribe = f'{{"op":"sub","id":2,"sid":1,"topic":"{topic}","group":"{group}"}}'
            sent = await opened(world, who, ns, [hello, subscribe])
            texts = [each["text"] for each in sent if each["type"] == "websocket.send"]
            answer = next(text for text in texts if '"id":2' in text)
            assert f'"{expected}"' in answer, (who, ns, things)
