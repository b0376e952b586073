"""Tickets for sockets: who gets one, what it opens, and what ends the socket it opened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.test import Client
from pytest_django import Settings

from mqservice.accounts import tickets_api
from mqservice.accounts.models import Member
from mqservice.accounts.ticket_holders import find_holder, session_id_of
from mqservice.accounts.tickets import Tickets
from mqservice.asgi import Application
from mqservice.caches import Caches
from mqservice.delivery.context import DeliveryContext, process_context
from mqservice.delivery.http import Message
from mqservice.delivery.origins import Origins
from mqservice.lib.problem import Problem
from mqservice.lib.throttle import Throttle
from mqservice.store import close_store
from tests.clock import ManualClock
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.people.visitors import sign_in
from tests.people import People, revoke

PATH = "/v1/ws-tickets"
PAGE = "https://app.example.com"
OTHER_PAGE = "https://other.example.com"
NOBODY = "redis://127.0.0.1:1/0"
KEPT = "mq:ticket:*"
WAIT_S = 60.0
Json = dict[str, Any]  # Any: answers are looked into field by field
Api = Callable[[str], Client]


@pytest.fixture(autouse=True)
def valkey(valkey_server: str, settings: Settings) -> None:
    settings.MQ_VALKEY_URL = valkey_server


class Handshake:
    """One socket on the application itself."""

    def __init__(self, context: DeliveryContext, ticket: str, **more: str) -> None:
        headers = [(b"origin", more["origin"].encode())] if "origin" in more else []
        self.scope: Message = {
            "type": "websocket", "path": "/v1/ws", "client": ("127.0.0.1", 1), "headers": headers,
            "query_string": f"ns={more['ns']}".encode() if "ns" in more else b"",
            "subprotocols": ["mq.v1.json", f"ticket.{ticket}"],
        }  # fmt: skip
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._incoming.put_nowait({"type": "websocket.connect"})
        application = Application(lambda: context)
        self._running = asyncio.ensure_future(
            application(self.scope, self._incoming.get, self._send)
        )

    async def next(self) -> Message:
        async with asyncio.timeout(WAIT_S):
            return await self._sent.get()

    async def code(self) -> int | None:
        """Of the close that refuses the handshake; None: it is open, and is left."""
        first = await self.next()
        assert first["type"] == "websocket.accept"
        if first.get("subprotocol") is None:
            return int((await self.next())["code"])
        await self.leave()
        return None

    async def ask(self, command: str) -> str:
        self._incoming.put_nowait({"type": "websocket.receive", "text": command})
        return str((await self.next())["text"])

    async def leave(self) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self._running

    async def _send(self, message: Message) -> None:
        self._sent.put_nowait(message)


@contextlib.asynccontextmanager
async def opened(url: str | None = None) -> AsyncIterator[DeliveryContext]:
    context = replace(
        process_context(), caches=Caches(), origins=Origins(others=[PAGE, OTHER_PAGE])
    )
    try:
        yield context if url is None else replace(context, tickets=Tickets(url))
    finally:
        await close_store()


async def issue(client: Client, body: Json | None = None, **headers: str) -> Json:
    def post() -> Json:
        answer = client.post(PATH, body or {}, content_type="application/json", headers=headers)
        assert answer.status_code == 201, answer.content
        found: Json = answer.json()
        return found

    return await sync_to_async(post)()


async def test_ticket_of_a_key_opens_one_socket_once(engine: str, people: People, api: Api) -> None:
    made = await issue(api(people.acme_key))
    assert made["expires_in_ms"] == 30_000
    assert made["namespace"] == "acme"
    async with opened() as context:
        assert await Handshake(context, made["ticket"]).code() is None
        assert await Handshake(context, made["ticket"]).code() == 4401


async def test_of_many_that_bring_one_ticket_at_once_one_gets_in(people: People, api: Api) -> None:
    made = await issue(api(people.acme_key))

    async def redeemed(url: str) -> bool:
        try:
            await Tickets(url).redeem(made["ticket"], "")
        except Problem:
            return False
        return True

    # Each has a connection of its own, as processes have.
    assert sum(await asyncio.gather(*(redeemed(_url()) for _ in range(20)))) == 1


async def test_ticket_that_is_too_old_is_worth_nothing(
    people: People, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tickets.__init__, "__kwdefaults__", {"life_ms": 1})
    with redis.Redis.from_url(_url()) as client:
        before = set(client.keys(KEPT))  # of other tests, which live for half a minute
        made = await issue(api(people.acme_key))
        wait_until(lambda: set(client.keys(KEPT)) <= before)
    with pytest.raises(Problem) as refusal:
        await Tickets(_url()).redeem(made["ticket"], "")
    assert refusal.value.code == "UNAUTHENTICATED"


async def test_ticket_is_kept_as_a_digest_and_ends_on_its_own(people: People, api: Api) -> None:
    with redis.Redis.from_url(_url()) as client:
        before = set(client.keys(KEPT))
        made = await issue(api(people.acme_key))
        names = [name.decode() for name in set(client.keys(KEPT)) - before]
        assert len(names) == 1
        assert not any(made["ticket"] in name for name in names)
        assert all(0 < client.pttl(name) <= 30_000 for name in names)
        values = [client.get(name).decode() for name in names]
        assert not any(people.acme_key[12:44] in value for value in values)


@pytest.mark.parametrize("text", ["", "x", "mqt_", "mqt_" + "A" * 32, "mqt_" + "é" * 32])
async def test_what_is_no_ticket_opens_nothing(text: str, engine: str, people: People) -> None:
    async with opened() as context:
        assert await Handshake(context, text).code() == 4401


async def test_ticket_is_valid_for_the_page_that_asked_and_gone_when_another_brings_it(
    engine: str, people: People, api: Api
) -> None:
    async with opened() as context:
        for origin, code in ((PAGE, None), (OTHER_PAGE, 4401), ("https://evil.example", 4403)):
            made = await issue(api(people.acme_key), origin=PAGE)
            assert await Handshake(context, made["ticket"], origin=origin).code() == code
        made = await issue(api(people.acme_key), origin=PAGE)
        assert await Handshake(context, made["ticket"], origin=OTHER_PAGE).code() == 4401
        assert await Handshake(context, made["ticket"], origin=PAGE).code() == 4401


async def test_ticket_of_a_revoked_key_opens_nothing(engine: str, people: People, api: Api) -> None:
    made = await issue(api(people.acme_key))
    await sync_to_async(revoke)(people.acme_key)
    async with opened() as context:
        assert await Handshake(context, made["ticket"]).code() == 4401


async def test_narrowed_ticket_may_do_that_and_no_more(
    engine: str, people: People, api: Api
) -> None:
    made = await issue(api(people.acme_owner_key), {"namespace": "acme", "scopes": ["consume"]})
    assert (made["namespace"], made["scopes"]) == ("acme", ["consume"])
    async with opened() as context:
        socket = Handshake(context, made["ticket"])
        await socket.next()
        await socket.ask('{"op":"hello","id":1}')
        refused = await socket.ask('{"op":"pub","id":2,"topic":"orders","m":[{"body":"x"}]}')
        assert "FORBIDDEN" in refused
        await socket.leave()
        other = await issue(api(people.acme_owner_key), {"namespace": "acme"})
        assert await Handshake(context, other["ticket"], ns="rival").code() == 4404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"scopes": ["produce"]}, 403),
        ({"scopes": ["consume:orders*"]}, 201),
        ({"namespace": "rival"}, 404),
        ({"namespace": "nowhere"}, 404),
        ({"namespace": 7}, 400),
        ({"scopes": "consume"}, 400),
        ({"lifetime": "1y"}, 400),
    ],
)
def test_nobody_gets_more_than_the_own_key_has(
    body: Json, status: int, people: People, api: Api
) -> None:
    answer = api(people.acme_reader_key).post(PATH, body, content_type="application/json")
    assert answer.status_code == status


def test_tickets_are_asked_for_so_often_and_no_more(
    people: People, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Throttle("ticket", limit=2, window_s=60, clock=ManualClock())
    monkeypatch.setattr(tickets_api, "TICKETS", few)
    client = api(people.acme_key)
    statuses = [
        client.post(PATH, {}, content_type="application/json").status_code for _ in range(3)
    ]
    assert statuses == [201, 201, 429]


async def test_session_opens_its_namespaces_and_no_others(engine: str, people: People) -> None:
    browser = Client()
    await sync_to_async(sign_in)(browser)
    made = await issue(browser, {"namespace": "acme"})
    assert made["scopes"]
    async with opened() as context:
        assert await Handshake(context, made["ticket"]).code() is None
    for name, status in (("rival", 404), ("nowhere", 404), (None, 400)):
        body = {} if name is None else {"namespace": name}
        answer = await sync_to_async(browser.post)(PATH, body, content_type="application/json")
        assert answer.status_code == status, name


def test_session_without_the_token_of_a_form_gets_none(people: People) -> None:
    browser = Client(enforce_csrf_checks=True)
    plain = Client()
    sign_in(plain)
    browser.cookies = plain.cookies
    body = {"namespace": "acme"}
    answer = browser.post(PATH, body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    page = browser.get("/account/")
    token = page.context["csrf_token"]
    headers = {"x-csrftoken": str(token)}
    answer = browser.post(PATH, body, content_type="application/json", headers=headers)
    assert answer.status_code == 201
    assert Client().post(PATH, body, content_type="application/json").status_code == 401


async def test_viewer_at_a_browser_reads_no_messages(engine: str, people: People) -> None:
    browser = Client()
    await sync_to_async(sign_in)(browser, "bob")
    made = await issue(browser, {"namespace": "acme"})
    assert made["scopes"] == []


@pytest.mark.parametrize("how", ["logout", "membership", "account", "password"])
async def test_what_ends_the_person_ends_the_open_socket(
    how: str, engine: str, people: People
) -> None:
    browser = Client()
    await sync_to_async(sign_in)(browser)
    made = await issue(browser, {"namespace": "acme"})
    holder = await Tickets(_url()).redeem(made["ticket"], "")
    principal = await sync_to_async(find_holder)(holder)
    assert principal is not None
    assert principal.actor == "user:alice"
    made = await issue(browser, {"namespace": "acme"})
    async with opened() as context:
        socket = Handshake(context, made["ticket"])
        await socket.next()
        await sync_to_async(end)(how, people, browser)
        # As PostgreSQL tells it: see ``test_caches``.
        digest = principal.key_id.removeprefix(session_id_of(""))
        context.caches.drop(f"session {digest}" if how == "logout" else "people")
        closed = await socket.next()
        assert (closed["type"], closed["code"]) == ("websocket.close", 4401)


def end(how: str, people: People, browser: Client) -> None:
    if how == "logout":
        browser.post("/account/logout/")
    elif how == "membership":
        Member.objects.filter(user=people.alice).delete()
    elif how == "account":
        people.alice.is_active = False
        people.alice.save()
    else:
        people.alice.set_password("another long phrase")
        people.alice.save()


async def test_without_valkey_tickets_are_unavailable_and_keys_open_sockets_as_ever(
    engine: str, people: People, api: Api, settings: Settings
) -> None:
    settings.MQ_VALKEY_URL = NOBODY
    client = api(people.acme_key)
    answer = await sync_to_async(client.post)(PATH, {}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (503, "TICKETS_UNAVAILABLE")
    assert answer.headers["Retry-After"] == "1"
    async with opened(NOBODY) as context:
        assert await Handshake(context, "mqt_" + "A" * 32).code() == 1013
        socket = Handshake(context, "")
        socket.scope["headers"].append((b"authorization", f"Bearer {people.acme_key}".encode()))
        assert await socket.code() is None


def _url() -> str:
    return str(django_settings.MQ_VALKEY_URL)
