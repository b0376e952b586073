"""The socket of a page: who may open it, what it tells, what one measuring costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast  # Any: messages of ASGI, decoded JSON

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from mqservice.accounts.models import Member
from mqservice.console.live import page_socket
from mqservice.console.live.consumer import KEYS_MAX, live_application
from mqservice.console.live.hub import Hub
from mqservice.console.live.texts import texts_of
from mqservice.console.shared.figures import Figures, GroupFigures, TopicFigures
from mqservice.delivery.origins import Origins
from mqservice.topics.models import Topic
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)
ORIGIN = b"https://console.example"


class Context:
    """What the socket needs of the process's context."""

    origins = Origins("https://console.example")


def cookie_of(client: Client) -> bytes:
    return f"mq_session={client.cookies['mq_session'].value}".encode()


class Socket(ApplicationCommunicator):
    """The page's side."""

    async def open(self) -> dict[str, Any]:
        """What the server says to the handshake."""
        await self.send_input({"type": "websocket.connect"})
        return cast("dict[str, Any]", await self.receive_output(60))

    async def say(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def told(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads((await self.receive_output(60))["text"]))

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.wait(60)


def opened(cookie: bytes, ns: str = "acme", origin: bytes = ORIGIN) -> Socket:
    application: Any = live_application(Context)  # type: ignore[arg-type]  # see Context
    scope = {
        "type": "websocket",
        "path": "/console/live",
        "query_string": f"ns={ns}".encode(),
        "headers": [(b"cookie", cookie), (b"origin", origin)],
    }
    return Socket(application, scope)


async def close_code(socket: Socket) -> int:
    message = await socket.open()
    if message["type"] == "websocket.accept":
        message = await socket.receive_output(60)
    assert message["type"] == "websocket.close", message
    return int(message["code"])


async def signed_in(user: object) -> bytes:
    client = Client()
    await sync_to_async(client.force_login)(user)  # type: ignore[arg-type]  # any user
    return cookie_of(client)


async def test_member_is_told_what_the_page_shows_and_then_what_changed(people: People) -> None:
    await Topic.objects.acreate(namespace=people.acme, name="orders")
    socket = opened(await signed_in(people.bob))
    assert (await socket.open())["type"] == "websocket.accept"
    await socket.say(json.dumps({"show": ["readable", "t:orders:messages", "t:none:rate"]}))
    assert await socket.told() == {"set": {"readable": "unknown", "t:orders:messages": "unknown"}}
    await socket.leave()


async def test_who_has_no_session_or_no_place_in_the_tenant_is_closed_out(people: People) -> None:
    assert await close_code(opened(b"mq_session=nobodys")) == 4401
    assert await close_code(opened(b"")) == 4401
    charlie = await signed_in(people.charlie)
    assert await close_code(opened(charlie)) == 4404
    assert await close_code(opened(charlie, ns="nothing")) == 4404
    bob = await signed_in(people.bob)
    assert await close_code(opened(bob, origin=b"https://evil.example")) == 4403


@pytest.mark.parametrize(
    "frame",
    ["", "{", '{"show": 1}', '{"other": []}', "[]", json.dumps({"show": ["lag"] * (KEYS_MAX + 1)}),
     json.dumps({"show": ["k" * 1_000]}), json.dumps({"show": ["lag"]}) + " " * 200_000],
)  # fmt: skip
async def test_frame_that_is_none_ends_the_socket(people: People, frame: str) -> None:
    socket = opened(await signed_in(people.bob))
    assert (await socket.open())["type"] == "websocket.accept"
    await socket.say(frame)
    message = await socket.receive_output(60)
    assert (message["type"], message["code"]) == ("websocket.close", 4400)


@pytest.mark.parametrize("loss", ["session", "membership"])
async def test_socket_ends_with_what_let_it_in(
    people: People, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(page_socket, "CHECK_MS", 0)
    monkeypatch.setattr("mqservice.console.live.hub.TICK_MS", 20)
    cookie = await signed_in(people.bob)
    socket = opened(cookie)
    assert (await socket.open())["type"] == "websocket.accept"
    await socket.say(json.dumps({"show": ["lag"]}))
    await socket.told()
    if loss == "session":
        await sync_to_async(SessionStore(cookie.decode().partition("=")[2]).delete)()
    else:
        await Member.objects.filter(user=people.bob).adelete()
    for _ in range(1_000):
        message = await socket.receive_output(60)
        if message["type"] != "websocket.send":
            break
    assert message["code"] == (4401 if loss == "session" else 4404)


def direct(at_ms: int, stored: int, settled: int) -> Figures:
    return Figures(
        at_ms=at_ms,
        topics={"orders": TopicFigures(stored=stored, readable=stored, in_per_s=None)},
        groups={"billing": GroupFigures(lag=3, settled=settled, is_known=True)},
        is_direct=True,
    )


class Ticks:
    """Stands for the time between two measurements."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def __call__(self, seconds: float) -> None:
        event = asyncio.Event()
        await self.waiting.put(event)
        await event.wait()


async def test_many_pages_of_a_namespace_cost_one_measuring() -> None:
    calls: list[int] = []
    ticks = Ticks()

    async def measure(namespace_id: int) -> Figures:
        calls.append(namespace_id)
        return direct(len(calls) * 1_000, stored=len(calls) * 50, settled=0)

    hub = Hub(measure, wait=ticks)
    async with hub.watching(7) as one, hub.watching(7) as other:
        assert one is other
        gate = await ticks.waiting.get()
        assert one.latest is not None
        following = asyncio.gather(one.next(), other.next())
        await asyncio.sleep(0)
        gate.set()
        figures = (await following)[0]
        assert calls == [7, 7]
        assert figures.topics["orders"].in_per_s == 50  # 50 more within a second
        assert hub.watcher_count == 2
    assert hub.watcher_count == 0
    assert one.task is not None
    assert one.task.done()  # nobody looks: nothing is measured


async def test_failed_measuring_is_followed_by_the_next() -> None:
    ticks = Ticks()
    answers: list[Callable[[], Figures]] = [lambda: 1 / 0, lambda: direct(1, 2, 3)]  # type: ignore[list-item, return-value]  # it raises

    async def measure(namespace_id: int) -> Figures:
        return answers.pop(0)()

    async with Hub(measure, wait=ticks).watching(1) as watch:
        gate = await ticks.waiting.get()
        assert watch.latest is None
        gate.set()
        assert (await watch.next()).lag is None


def test_texts_say_unknown_and_leave_out_what_is_not_there() -> None:
    figures = direct(0, 1_234, 5)
    keys = ["t:orders:messages", "t:orders:rate", "g:billing:lag", "g:billing:age", "t:x:lag", "?"]
    assert texts_of(figures, keys) == {
        "t:orders:messages": "1,234",
        "t:orders:rate": "unknown",
        "g:billing:lag": "3",
        "g:billing:age": "unknown",
    }
