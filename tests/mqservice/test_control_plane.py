"""Programs get from the short road what all of Django would have answered; its threads stay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.db import connection
from django.http import HttpResponse

from mqservice import control_plane
from mqservice.control_plane import EACH_MAX, ControlPlane, is_of_program
from mqservice.delivery.http import Message, Scope
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


def test_a_thread_keeps_its_connection_until_it_is_old(
    everybody: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "_is_pooled", lambda: True)
    plane, scope = ControlPlane(), scope_of("/v1/ns/acme/topics", f"Bearer {everybody.acme_key}")

    def connections() -> tuple[bool, bool, bool]:
        assert plane.answer(scope, b"").status_code == 200
        first = connection.connection
        assert plane.answer(scope, b"").status_code == 200
        second = connection.connection
        connection.close_at = 0.0
        assert plane.answer(scope, b"").status_code == 200
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
        plane.answer(scope, b"")
        found: Any = connection.connection  # Any: psycopg's
        return int(found.info.backend_pid)

    def statuses() -> list[int]:
        found = [plane.answer(scope, b"").status_code for _ in range(2)]
        connection.close()
        return found

    with ThreadPoolExecutor(1) as thread:
        pid = thread.submit(backend).result()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        assert thread.submit(statuses).result() == [200, 200]


async def test_a_thread_at_work_counts_although_its_client_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plane, may_end, begun = ControlPlane(), threading.Event(), []

    def answer(scope: Scope, body: bytes) -> HttpResponse:
        begun.append(scope["path"])
        may_end.wait(60)
        return HttpResponse(b"done")

    monkeypatch.setattr(plane, "answer", answer)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    def ask(path: str) -> asyncio.Task[None]:
        return asyncio.create_task(plane(scope_of(path, "Bearer x"), receive, send))

    left = [ask(f"/v1/{number}") for number in range(EACH_MAX)]
    async with asyncio.timeout(60):
        while len(begun) < EACH_MAX:
            await asyncio.sleep(0)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        next_one = ask("/v1/next")
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(begun) == EACH_MAX  # the asker's part is taken still
        may_end.set()
        await next_one
    plane.close()
    assert begun[EACH_MAX:] == ["/v1/next"]
    assert [message.get("body") for message in sent] == [None, b"done"]
