"""Programs get from the short road what all of Django would have answered; its threads stay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.http import HttpResponse
from django.utils import timezone

from mqservice import control_plane
from mqservice.accounts.models import ApiKey
from mqservice.caches import NamespaceKey, NamespaceRoute, RouteCache
from mqservice.control_plane import (
    EACH_MAX,
    THREADS,
    ControlPlane,
    is_of_program,
    with_connection,
)
from mqservice.delivery.http import Message, Scope
from mqservice.lib.middleware import ASKED_FOR
from mqservice.moving_changes import MOVE, Move
from mqservice.topics.models import Topic
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.people import People, create_people

VARYING = {"date", "x-request-id", "ratelimit"}


@pytest.fixture
def everybody(transactional_db: None) -> People:
    return create_people()


@pytest.fixture
def server(everybody: People, engine: str) -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        yield running


def scope_of(path: str, key: str) -> Scope:
    return {
        "type": "http", "method": "GET", "path": path, "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", key.encode())],
        "mq.request_id": "r-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "path", "expected"),
    [
        ({b"authorization": b"Bearer x"}, "/v1/quotas", True),
        ({b"authorization": b"Bearer x"}, "/console/", False),
        ({b"authorization": b"Bearer x", b"cookie": b"mq_session=x"}, "/v1/quotas", False),
        ({b"cookie": b"mq_session=x"}, "/v1/ws-tickets", False),
        ({}, "/v1/quotas", False),
    ],
)
def test_what_a_browser_may_have_sent_goes_the_long_road(
    headers: dict[bytes, bytes], path: str, expected: bool
) -> None:
    assert is_of_program({"path": path}, headers) is expected


@pytest.mark.parametrize(
    ("method", "path", "body", "more", "status"),
    [
        ("GET", "/v1/ns/acme/topics", b"", {}, 200),
        ("HEAD", "/v1/ns/acme/topics", b"", {}, 405),
        ("PUT", "/v1/ns/acme/topics/there", b'{"queues": 2}', {}, 200),
        ("PUT", "/v1/ns/acme/topics/there", b'{"queues": 1}', {}, 400),
        ("PUT", "/v1/ns/acme/topics/there", b"{", {}, 400),
        ("PUT", "/v1/ns/acme/topics/there", b"{}", {"if-match": '"9"'}, 412),
        ("PUT", "/v1/ns/rival/topics/there", b"{}", {}, 404),
        ("GET", "/v1/ns/acme/topics/a%00b", b"", {}, 400),
        ("GET", "/v1/ns/acme/topics?limit=x&after=%ff", b"", {}, 400),
        ("GET", "/v1/none/such", b"", {}, 404),
        ("PATCH", "/v1/ns/acme/topics/there", b"", {}, 405),
        ("GET", "/v1/quotas", b"", {"host": "elsewhere.example"}, 400),
        ("GET", "/v1/quotas", b"", {"authorization": "Bearer mqk_none"}, 401),
        ("POST", "/v1/quotas", b"", {"idempotency-key": "k"}, 400),
        ("POST", "/v1/ws-tickets", b"[]", {}, 400),
        ("PUT", "/v1/ns/acme/topics/there", b"x" * (1024 * 1024 + 1), {}, 413),
        ("GET", "/v1/openapi.json", b"", {}, 200),
        ("GET", "/v1/ns/acme/topics", b"", {"accept-language": "zh-hans"}, 200),
    ],
)  # fmt: skip
def test_the_answer_is_that_of_all_of_django(
    server: Server, everybody: People, method: str, path: str, body: bytes,
    more: dict[str, str], status: int,
) -> None:  # fmt: skip
    headers = {"authorization": f"Bearer {everybody.acme_key}", "x-request-id": "the-same-id-1"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        client.put("/v1/ns/acme/topics/there", json={"queues": 2}).raise_for_status()
        short = client.request(method, path, content=body, headers=more)
        long = client.request(method, path, content=body, headers={**more, "cookie": "a=b"})
    assert short.status_code == status
    assert (short.status_code, short.content) == (long.status_code, long.content)
    assert comparable(short) == comparable(long)


def comparable(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in VARYING}


def test_many_at_once_are_all_answered(server: Server, everybody: People) -> None:
    keys = [everybody.acme_key, everybody.rival_key]

    async def put_all() -> list[int]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            answers = await asyncio.gather(
                *(
                    client.put(
                        f"/v1/ns/-/topics/t{number}",
                        headers={"authorization": f"Bearer {keys[number % 2]}"},
                    )
                    for number in range(24)
                )
            )
        return [answer.status_code for answer in answers]

    assert asyncio.run(put_all()) == [201] * 24
    assert Topic.objects.count() == 24


def status_of(plane: ControlPlane, scope: Scope) -> int:
    """Of the answer to a request, on this thread."""
    return with_connection(partial(plane.answer, scope, b"")).status_code


def test_a_thread_keeps_its_connection_until_it_is_old(
    everybody: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "_is_pooled", lambda: True)
    plane, scope = ControlPlane(), scope_of("/v1/ns/acme/topics", f"Bearer {everybody.acme_key}")

    def connections() -> tuple[bool, bool, bool]:
        assert status_of(plane, scope) == 200
        first = connection.connection
        assert status_of(plane, scope) == 200
        second = connection.connection
        connection.close_at = 0.0
        assert status_of(plane, scope) == 200
        third = connection.connection
        connection.close()
        return first is not None, first is second, second is third

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(connections).result() == (True, True, False)


def test_a_connection_that_the_server_has_ended_costs_no_request(
    everybody: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "_is_pooled", lambda: True)
    plane, scope = ControlPlane(), scope_of("/v1/ns/acme/topics", f"Bearer {everybody.acme_key}")

    def backend() -> int:
        status_of(plane, scope)
        found: Any = connection.connection  # Any: psycopg's
        return int(found.info.backend_pid)

    def statuses() -> list[int]:
        found = [status_of(plane, scope) for _ in range(2)]
        connection.close()
        return found

    with ThreadPoolExecutor(1) as thread:
        pid = thread.submit(backend).result()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        assert thread.submit(statuses).result() == [200, 200]


class Asked:
    """A plane whose answers wait for ``may_end``; their keys are good if they name a tenant."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plane = ControlPlane()
        self.may_end = threading.Event()
        self.begun: list[str] = []
        self.sent: list[Message] = []
        monkeypatch.setattr(self.plane, "answer", self._answer)

    def ask(
        self,
        path: str,
        key: str = "Bearer x",
        client: str = "10.0.0.1",
        move: Move | None = None,
    ) -> asyncio.Task[None]:
        scope = {**scope_of(path, key), "client": (client, 1), MOVE: move}
        return asyncio.create_task(self.plane(scope, receive_all, self._send))

    async def wait_begun(self, count: int) -> None:
        """And a little longer, for those that should not begin."""
        async with asyncio.timeout(60):
            while len(self.begun) < count:
                await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(self.begun) == count

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        self.may_end.set()
        await asyncio.gather(*tasks)
        self.plane.close()

    def _answer(self, scope: Scope, body: bytes) -> HttpResponse:
        self.begun.append(scope["path"])
        self.may_end.wait(60)
        key = dict(scope["headers"])[b"authorization"].decode()
        if "tenant" in key:
            scope[ASKED_FOR] = int(key.partition("tenant")[2][0])
        return HttpResponse(b"done")

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


async def receive_all() -> Message:
    return {"type": "http.request", "body": b""}


async def test_a_thread_at_work_counts_although_its_client_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    left = [asked.ask(f"/v1/{number}") for number in range(EACH_MAX)]
    await asked.wait_begun(EACH_MAX)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    next_one = asked.ask("/v1/next")
    await asked.wait_begun(EACH_MAX)  # the asker's part is taken still
    await asked.end(next_one)
    assert asked.begun[EACH_MAX:] == ["/v1/next"]
    assert [message.get("body") for message in asked.sent] == [None, b"done"]


class Moving:
    """A namespace that may be moving."""

    def __init__(self) -> None:
        self.key: NamespaceKey = (1, "acme")
        self.is_moving = False
        self.is_known = True
        self.routes = RouteCache(
            nothing, nothing, find_namespace=self._find_namespace, find_moving=self._find_moving
        )

    @property
    def move(self) -> Move:
        async def find() -> NamespaceKey:
            return self.key

        return Move(self.routes, find)

    def change(self, *, is_moving: bool) -> None:
        self.is_moving = is_moving
        self.routes.clear()

    async def _find_namespace(self, key: NamespaceKey) -> NamespaceRoute:
        return NamespaceRoute(key[1], "main", self.is_moving)

    async def _find_moving(self, _: str) -> frozenset[NamespaceKey]:
        if not self.is_known:
            raise asyncio.CancelledError
        return frozenset({self.key} if self.is_moving else ())


async def nothing(_: object) -> None:
    return None


async def test_who_was_in_line_when_its_namespace_began_to_move_leaves_its_turn_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, moving = Asked(monkeypatch), Moving()
    first = [asked.ask(f"/v1/{number}") for number in range(EACH_MAX)]
    await asked.wait_begun(EACH_MAX)
    changes = [asked.ask("/v1/change", move=moving.move) for _ in range(EACH_MAX)]
    await asyncio.sleep(0)
    moving.change(is_moving=True)
    asked.may_end.set()
    await asyncio.gather(*first)
    async with asyncio.timeout(60):
        while moving.routes.waiting_changes_count < EACH_MAX == len(asked.begun):
            await asyncio.sleep(0)
    assert asked.begun == [f"/v1/{number}" for number in range(EACH_MAX)]
    await asked.ask("/v1/other")
    assert asked.begun[-1] == "/v1/other"
    moving.change(is_moving=False)
    await asked.end(*changes)
    assert asked.begun[-EACH_MAX:] == ["/v1/change"] * EACH_MAX
    assert asked.plane._turns._free == THREADS


async def test_a_client_that_leaves_while_its_turn_asks_for_the_move_gives_the_turn_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, moving = Asked(monkeypatch), Moving()
    moving.is_known = False
    left = asked.ask("/v1/change", move=moving.move)
    await asyncio.gather(left, return_exceptions=True)
    assert left.cancelled()
    assert asked.plane._turns._free == THREADS
    await asked.end()


async def test_a_tenant_has_no_more_threads_for_having_more_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    asked.may_end.set()
    keys = [f"Bearer tenant1 key {number}" for number in range(EACH_MAX + 1)]
    await asyncio.gather(*(asked.ask("/v1/first", key) for key in keys))
    asked.may_end.clear()
    asked.begun.clear()
    many = [asked.ask("/v1/many", key, f"10.0.1.{number}") for number, key in enumerate(keys)]
    await asked.wait_begun(EACH_MAX)
    other = asked.ask("/v1/other", "Bearer tenant2")
    await asked.wait_begun(THREADS)
    assert asked.begun[-1] == "/v1/other"
    await asked.end(*many, other)


async def test_an_address_has_no_more_threads_for_guessing_many_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    guesses = [asked.ask("/v1/guess", f"Bearer {number}") for number in range(EACH_MAX + 1)]
    await asked.wait_begun(EACH_MAX)
    other = asked.ask("/v1/other", client="10.0.0.2")
    await asked.wait_begun(THREADS)
    assert asked.begun[-1] == "/v1/other"
    await asked.end(*guesses, other)


async def test_a_key_is_its_tenants_for_as_long_as_it_is_good(
    everybody: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane, askers = ControlPlane(), list[str]()
    begin = plane._turns.begin

    async def noted(asker: str) -> bool:
        askers.append(asker)
        return await begin(asker)

    async def send(message: Message) -> None:
        pass

    monkeypatch.setattr(plane._turns, "begin", noted)
    monkeypatch.setattr(control_plane, "KEYS_MAX", 2)

    async def ask(key: str) -> str:
        scope = {**scope_of("/v1/quotas", f"Bearer {key}"), "client": ("10.0.0.1", 1)}
        await plane(scope, receive_all, send)
        return askers[-1]

    acme, rival = (f"tenant {each.tenant_id}" for each in (everybody.acme, everybody.rival))
    assert [await ask(everybody.acme_key) for _ in range(2)] == ["10.0.0.1", acme]
    assert [await ask(everybody.acme_owner_key) for _ in range(2)] == ["10.0.0.1", acme]
    assert [await ask(everybody.rival_key) for _ in range(2)] == ["10.0.0.1", rival]
    assert [await ask(everybody.acme_key) for _ in range(2)] == ["10.0.0.1", acme]  # for newer ones
    assert [await ask("mqk_none") for _ in range(2)] == ["10.0.0.1", "10.0.0.1"]
    await sync_to_async(ApiKey.objects.update)(revoked_at=timezone.now())
    assert [await ask(everybody.acme_key) for _ in range(2)] == [acme, "10.0.0.1"]
    plane.close()


async def test_closing_lets_all_be_answered_that_has_been_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    tasks = [asked.ask("/v1/last") for _ in range(EACH_MAX + 1)]  # one waits for its turn
    await asked.wait_begun(EACH_MAX)
    asked.plane.close()
    await asked.end(*tasks)
    bodies = [message["body"] for message in asked.sent if "body" in message]
    assert bodies == [b"done"] * (EACH_MAX + 1)
