"""One ASGI callable for everything, and the process around it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx
import pytest

from mqservice.delivery.http import Match
from mqservice.delivery.operation import GROUP, TOPIC
from mqservice.delivery.plane import find_match
from mqservice.quotas.rejection_pacing import (
    CONNECTION_BYTES,
    REJECTIONS_AT_ONCE,
    WAITING_BYTES_MAX,
    RejectionPacer,
)
from mqservice.web.__main__ import AddressUnavailable, ConfigInvalid, address_from, bind_socket
from mqservice.web.connection_limits import ConnectionLimits
from mqservice.web.corked_transport import CORK_BYTES_MAX
from mqservice.web.transport import HEAD_BYTES_MAX, CorkedHttpProtocol
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.quotas.doubles import ManualClock


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/ns/acme/topics/orders/messages", Match(TOPIC + "/messages", "acme", "orders", "")),
        ("/v1/-/topics/orders/messages", Match(TOPIC + "/messages", "-", "orders", "")),
        (
            "/v1/ns/-/topics/orders/messages:batch",
            Match(TOPIC + "/messages:batch", "-", "orders", ""),
        ),
        (
            "/v1/-/topics/o/messages/01AC",
            Match(TOPIC + "/messages/{message_id}", "-", "o", "", message_id="01AC"),
        ),
        (
            "/v1/-/topics/o/queues/3/messages",
            Match(TOPIC + "/queues/{queue}/messages", "-", "o", "", queue="3"),
        ),
        (
            "/v1/-/topics/o/queues/x/offset",
            Match(TOPIC + "/queues/{queue}/offset", "-", "o", "", queue="x"),
        ),
        (
            "/v1/ns/a/topics/o/groups/b:receive",
            Match(TOPIC + "/groups/{group}:receive", "a", "o", "b"),
        ),
        ("/v1/ns/a/groups/b:settle", Match(GROUP + ":settle", "a", "", "b")),
        ("/v1/-/topics/o/messages/01AC:resend", None),
        ("/v1/-/topics/o/queues/3", None),
        ("/v1/ns/acme/topics/orders", None),
        ("/v1/ns/acme/topics/orders/messages/", None),
        ("/v1/ns/acme/topics/orders/messages:other", None),
        ("/v1/ns/acme/groups/b", None),
        ("/v1/ns/a/b/topics/orders/messages", None),
    ],
)
def test_which_paths_are_the_data_planes(path: str, expected: Match | None) -> None:
    assert find_match(path) == expected


def test_django_answers_what_is_not_the_data_plane(server: Server) -> None:
    response = httpx.get(
        f"{server.url}/v1/no/such/path", headers={"x-request-id": "given-id-1"}, timeout=60
    )

    assert response.status_code == 404
    assert response.headers["x-request-id"] == "given-id-1"


def test_who_is_refused_by_the_control_plane_again_and_again_waits_too(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []

    async def sleep(seconds: float) -> None:
        slept_s.append(seconds)

    monkeypatch.setattr(server.application, "_refusals", RejectionPacer(ManualClock(), sleep))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        answers = [client.get("/v1/quotas") for _ in range(REJECTIONS_AT_ONCE)]
        assert slept_s == []
        late = client.get("/v1/quotas")
        assert len(slept_s) == 1
        refusals = server.application._refusals._by_key["127.0.0.1"]
        for _ in range(WAITING_BYTES_MAX // CONNECTION_BYTES):
            assert refusals.begin(ManualClock().ms)
        last = client.get("/v1/quotas")
        assert last.headers["connection"] == "close"
        assert {answer.status_code for answer in (*answers, late, last)} == {401}
        assert client.get("/v1/none").status_code == 404  # nobody is refused anything: at once
    assert len(slept_s) == 1


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    server.topic("orders")
    one = (
        "POST /v1/-/topics/orders/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: {server.key()}\r\n"
        "x-request-id: pipelined-{}\r\ncontent-length: 1\r\n\r\nx"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall("".join(one.format(n) for n in range(5)).encode())
        answer = b""
        while answer.count(b'"duplicate":false}') < 5:
            answer += peer.recv(65536)

    assert [answer.index(f"pipelined-{n}".encode()) for n in range(5)] == sorted(
        answer.index(f"pipelined-{n}".encode()) for n in range(5)
    )


def test_an_answer_larger_than_the_cork_arrives_whole(server: Server) -> None:
    server.topic("large")
    server.group("readers")
    body = "x" * (CORK_BYTES_MAX + 1)
    with server.client() as api:
        api.post("/v1/-/topics/large/messages:batch", json=[{"body": body}] * 5)
        messages = api.post("/v1/-/topics/large/groups/readers:receive").json()["messages"]

    assert [message["body"] for message in messages] == [body] * 5


def test_a_head_without_end_is_431(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nx-endless: ")
        for _ in range(HEAD_BYTES_MAX // 1024 + 1):
            peer.sendall(b"x" * 1024)
        answer = peer.recv(65536)

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"HEADERS_TOO_LARGE" in answer


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nhost:"])
def test_a_head_that_takes_too_long_is_408(
    server: Server, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(CorkedHttpProtocol, "limits", ConnectionLimits(head_ms_max=100))

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(begun)
        answer = peer.recv(65536)

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_later_head_is_timed_as_well(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CorkedHttpProtocol, "limits", ConnectionLimits(head_ms_max=100))

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(b"GET /v1/-/groups/b:settle HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\nGET / HT")
        answer = b""
        while part := peer.recv(65536):
            answer += part

    assert answer.index(b"HTTP/1.1 401 ") < answer.index(b"HTTP/1.1 408 ")


def test_an_address_from_the_environment() -> None:
    assert address_from({}) == ("127.0.0.1", 8000, False)
    assert address_from({"MQ_BIND": "::1", "MQ_PORT": "0", "MQ_WEB_REUSE_PORT": "1"}) == (
        "::1",
        0,
        True,
    )


@pytest.mark.parametrize("port", ["http", "-1", "65536", "1.5", "٣"])
def test_a_port_that_cannot_be_meant(port: str) -> None:
    with pytest.raises(ConfigInvalid, match="MQ_PORT"):
        address_from({"MQ_PORT": port})


def test_an_address_that_does_not_exist() -> None:
    with pytest.raises(ConfigInvalid, match="not an address"):
        bind_socket("no.such.host.invalid", 0, is_shared=False)


def test_a_shared_port_is_bound_by_several() -> None:
    with bind_socket("127.0.0.1", 0, is_shared=True) as first:
        port: int = first.getsockname()[1]
        with bind_socket("127.0.0.1", port, is_shared=True) as second:
            assert second.getsockname()[1] == port


def test_an_unshared_port_is_bound_once() -> None:
    with bind_socket("127.0.0.1", 0, is_shared=False) as first:
        port: int = first.getsockname()[1]
        with pytest.raises(AddressUnavailable, match=f"cannot listen on 127.0.0.1:{port}"):
            bind_socket("127.0.0.1", port, is_shared=False)


def run_web(**environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mqservice.web"],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_process_says_in_one_line_why_it_cannot_start(server: Server) -> None:
    taken = run_web(MQ_PORT=str(server.port))
    senseless = run_web(MQ_PORT="door")

    assert (taken.returncode, senseless.returncode) == (3, 2)
    assert taken.stderr.count("\n") == senseless.stderr.count("\n") == 1
    assert f"cannot listen on 127.0.0.1:{server.port}: Address already in use" in taken.stderr
    assert "MQ_PORT must be a number" in senseless.stderr


def test_a_server_stops_while_connections_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mqservice.web.__main__.GRACEFUL_SHUTDOWN_SECONDS", 3_600
    )  # else it ends all then
    with serving(StoreDouble()) as server, httpx.Client(base_url=server.url, timeout=60) as api:
        assert api.get("/v1/ns/a/groups/b:settle").status_code == 401
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(60)

        assert not stopping.is_alive()
