"""Changes of a namespace wait while it goes to another shard, and hold up nobody else meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import httpx
import pytest
from django.test import Client

from mqservice.accounts.models import Namespace
from mqservice.caches import MOVING_CHANGES_MAX, Caches, listen
from mqservice.control_plane import THREADS
from mqservice.store import (
    AsyncStoreClient,
    ClientConfig,
    NamespaceHoldRequest,
    NamespaceReleaseRequest,
    StoreClient,
)
from mqservice.topics.models import Topic
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.wait_until import wait_until
from tests.people import People
from tests.sizes import sized

COUNT = sized(50, torture=200)
NUMBERS = count(time.time_ns() // 1_000_000)  # of holds, which only grow
FOR_EVER_MS = 3_600_000
FORM = {
    "name": "orders",
    "type": "mixed",
    "queues": "1",
    "retention": "1d",
    "durability": "sync",
    "body_bytes_max": "65536",
}


@dataclass(frozen=True)
class Desk:
    """A server that hears what changes in PostgreSQL, before an engine."""

    server: Server
    people: People

    def client(self, key: str) -> httpx.Client:
        return self.server.client(f"Bearer {key}")

    @property
    def waiting_count(self) -> int:
        routes = self.server.context.caches.routes
        return self.server.call(lambda: routes.waiting_changes_count)

    @property
    def free_turns(self) -> int:
        """Of the control plane's threads."""
        return self.server.call(lambda: self.server.application._control_plane._turns._free)

    def move(self, moving_to: str) -> None:
        """Namespace acme goes to another shard; ``""``: it does not any more."""
        Namespace.objects.filter(name="acme").update(moving_to=moving_to)
        self.server.wait_for(self.server.context.caches.hear_own_changes)


@pytest.fixture
def desk(transactional_db: None, people: People, engine: str, test_dsn: str) -> Iterator[Desk]:
    store = AsyncStoreClient(engine, client_name="test")
    with serving(store, fresh_ms=30_000) as server:
        caches, real = server.context.caches, Caches()
        caches.keys, caches.routes = real.keys, real.routes
        server.call(store.start)
        wait_until(lambda: store.is_connected)
        assert server._loop is not None
        listening = asyncio.run_coroutine_threadsafe(listen(caches, dsn=test_dsn), server._loop)
        wait_until(lambda: caches.is_listening)
        yield Desk(server, people)
        listening.cancel()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in vain, however slow the machine is."""
    monkeypatch.setattr("mqservice.moving_waits._LIMITS", ClientConfig(hold_ms_max=FOR_EVER_MS))


async def put_topics(desk: Desk) -> list[int]:
    async with httpx.AsyncClient(
        base_url=desk.server.url,
        headers={"authorization": f"Bearer {desk.people.acme_key}"},
        limits=httpx.Limits(max_connections=None),
        timeout=600,
        verify=False,
    ) as client:
        puts = (client.put(f"/v1/ns/-/topics/t{n}", json={"queues": 1}) for n in range(COUNT))
        return [answer.status_code for answer in await asyncio.gather(*puts)]


@pytest.mark.sized
@pytest.mark.usefixtures("patience")
def test_many_changes_that_wait_hold_up_nobody_else(desk: Desk) -> None:
    people = desk.people
    Namespace.objects.create(tenant=people.acme.tenant, name="shop")
    with desk.client(people.acme_owner_key) as owner, ThreadPoolExecutor(1) as thread:
        # given as many changes of a namespace that moves
        assert owner.put("/v1/ns/acme/topics/before", json={"queues": 1}).status_code == 201
        desk.move("s2")
        waiting = thread.submit(lambda: asyncio.run(put_topics(desk)))
        wait_until(lambda: desk.waiting_count == COUNT)
        # then no thread is theirs, and other namespaces are changed and serve messages
        assert desk.free_turns == THREADS
        assert Topic.objects.count() == 1
        for path in ("topics/orders", "groups/shippers"):
            assert owner.put(f"/v1/ns/shop/{path}", json={}).status_code == 201
        with desk.client(people.rival_key) as rival:
            assert rival.put("/v1/ns/-/topics/orders", json={}).status_code == 201
            sent = rival.post("/v1/ns/-/topics/orders/messages", json={"body": "a"})
            assert sent.status_code == 201, sent.text
        sent = owner.post("/v1/ns/shop/topics/orders/messages", json={"body": "b"})
        assert sent.status_code == 201, sent.text
        got = owner.post("/v1/ns/shop/topics/orders/groups/shippers:receive", json={"wait": "10s"})
        assert [each["body"] for each in got.json()["messages"]] == ["b"]
        # nor does reading its settings wait
        assert owner.get("/v1/ns/acme/topics").status_code == 200
        assert not waiting.done()
        # when it has moved, each is made once
        desk.move("")
        assert waiting.result(120) == [201] * COUNT
        assert Topic.objects.filter(namespace=people.acme).count() == 1 + COUNT
        assert desk.waiting_count == 0


def test_what_has_waited_too_long_is_refused_and_changes_nothing(
    desk: Desk, store: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of the old shard is taken by then: it must not know of anything more."""
    monkeypatch.setattr("mqservice.moving_waits._LIMITS", ClientConfig(hold_ms_max=1))
    number = next(NUMBERS)
    with desk.client(desk.people.acme_key) as client:
        assert client.put("/v1/ns/-/topics/there", json={"queues": 1}).status_code == 201
        desk.move("s2")
        store.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=number))
        before = store.topic_list().topics
        changes = (
            client.put("/v1/ns/-/topics/new", json={"queues": 1}),
            client.put("/v1/ns/-/topics/there", json={"queues": 2}),
            client.delete("/v1/ns/-/topics/there"),
            client.put("/v1/ns/-/groups/new", json={}),
        )
        for answer in changes:
            assert answer.status_code == 503, answer.text
            assert answer.json()["code"] == "ENGINE_UNAVAILABLE"
            assert answer.headers["retry-after"]
        assert store.topic_list().topics == before
        assert [(each.name, each.queue_count) for each in Topic.objects.all()] == [("there", 1)]
        # where the move came to nothing, the old shard takes the same changes
        store.namespace_release(NamespaceReleaseRequest(number=number))
        desk.move("")
        assert client.put("/v1/ns/-/topics/new", json={"queues": 1}).status_code == 201
        assert client.delete("/v1/ns/-/topics/there").status_code == 204


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("other", ["", 'seen={"at": 1}; ', "a@b=1; "])
def test_the_console_waits_as_well(desk: Desk, other: str) -> None:
    """Whatever other cookies the browser has of this site, as those of another program on it."""
    browser = Client()
    browser.force_login(desk.people.alice)
    with httpx.Client(base_url=desk.server.url, timeout=600, verify=False) as client:
        for name, morsel in browser.cookies.items():
            client.cookies.set(name, morsel.value)
        assert client.get("/console/acme/new-topic").status_code == 200  # with its CSRF cookie
        token = {"X-CSRFToken": client.cookies["mq_csrf"]}
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        client.cookies.clear()
        headers = token | {"cookie": other + cookies}

        def post() -> httpx.Response:
            return client.post("/console/acme/new-topic", data=FORM, headers=headers)

        desk.move("s2")
        with ThreadPoolExecutor(1) as thread:
            waiting: Future[httpx.Response] = thread.submit(post)
            wait_until(lambda: desk.waiting_count == 1)
            assert not Topic.objects.exists()
            desk.move("")
            assert waiting.result(120).status_code == 302, waiting.result().text
    assert Topic.objects.get().name == "orders"


@pytest.mark.usefixtures("patience")
def test_nobody_waits_for_the_namespace_of_another_tenant(desk: Desk) -> None:
    """Not even whether it is there can be told from how long the answer takes."""
    desk.move("s2")
    browser = Client()
    browser.force_login(desk.people.charlie)
    with desk.client(desk.people.rival_owner_key) as client:
        assert client.put("/v1/ns/acme/topics/t", json={}).status_code == 404
    with desk.client("mqk_none") as client:
        assert client.put("/v1/ns/acme/topics/t", json={}).status_code == 401
    with httpx.Client(base_url=desk.server.url, timeout=600, verify=False) as client:
        assert client.post("/console/acme/new-topic").status_code == 403  # without a session
        for cookie in (b"mq_session=none", b"mq_session", b";;", b"a=\xff"):
            refused = client.post("/console/acme/new-topic", headers={b"cookie": cookie})
            assert refused.status_code == 403
        for name, morsel in browser.cookies.items():
            client.cookies.set(name, morsel.value)
        assert client.get("/console/rival/new-topic").status_code == 200
        token = {"X-CSRFToken": client.cookies["mq_csrf"]}
        refused = client.post("/console/acme/new-topic", data={}, headers=token)
        assert refused.status_code == 404
    assert desk.waiting_count == 0


def test_too_many_are_refused_at_once(desk: Desk, store: StoreClient) -> None:
    number = next(NUMBERS)
    store.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=number))
    desk.move("s2")
    waits = desk.server.context.caches.routes._waiting_changes
    waits._count = MOVING_CHANGES_MAX
    try:
        with desk.client(desk.people.acme_key) as client:
            refused = client.put("/v1/ns/-/topics/t", json={"queues": 1})
            assert (refused.status_code, refused.json()["code"]) == (503, "ENGINE_UNAVAILABLE")
    finally:
        store.namespace_release(NamespaceReleaseRequest(number=number))
