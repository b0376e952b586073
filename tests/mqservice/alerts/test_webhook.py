"""Webhooks against a real server: signed, bounded, and led nowhere else."""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
from ipaddress import ip_network

import pytest

from mqservice.alerts.addresses import TargetRejected
from mqservice.alerts.webhook import WebhookFailed, post, signature
from tests.mqservice.alerts.hooks import Hook, listening

HERE = [ip_network("127.0.0.0/8")]


def send(hook: Hook, url: str | None = None, *, timeout_ms: int = 60_000) -> int:
    return post(
        url or hook.url, b'{"a":1}', {"X-MQ-Event": "e"}, allowed=HERE, timeout_ms=timeout_ms
    )


def test_one_request_with_its_headers_and_body() -> None:
    with listening() as hook:
        assert send(hook) == 204
    [(first, headers, body)] = hook.requests
    assert first == "POST /hook?x=1 HTTP/1.1"
    assert body == b'{"a":1}'
    assert headers["Host"] == f"127.0.0.1:{hook.port}"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-MQ-Event"] == "e"


def test_the_name_goes_into_the_request_and_the_judged_address_is_connected_to() -> None:
    asked = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    with listening() as hook:
        url = f"http://hooks.example:{hook.port}/"
        assert post(url, b"{}", {}, allowed=HERE, resolve=rebinding) == 204
    assert asked == ["hooks.example"]
    assert hook.requests[0][1]["Host"] == f"hooks.example:{hook.port}"


def test_this_host_is_refused_without_a_connection_unless_allowed() -> None:
    with listening() as hook:
        with pytest.raises(TargetRejected):
            post(hook.url, b"{}", {}, allowed=())
        with pytest.raises(TargetRejected):
            post(f"https://localhost:{hook.port}/", b"{}", {}, allowed=())
    assert hook.requests == []


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308, 400, 404, 429, 500, 503])
def test_anything_but_2xx_failed_and_no_redirect_is_followed(status: int) -> None:
    with listening() as other, listening() as hook:
        location = f"Location: {other.url}\r\n".encode()
        hook.answer = lambda to: to.sendall(b"HTTP/1.1 %d X\r\n%s\r\n" % (status, location))
        with pytest.raises(WebhookFailed, match=str(status)):
            send(hook)
    assert len(hook.requests) == 1
    assert other.requests == []


@pytest.mark.parametrize(
    "answer",
    [b"", b"hello\r\n", b"HTTP/2 200\r\n", b"HTTP/1.1 20\r\n", b"HTTP/1.1 abc\r\n", b"\x00" * 99],
)
def test_what_is_no_http_failed(answer: bytes) -> None:
    with listening() as hook:
        hook.answer = lambda to: to.sendall(answer)
        with pytest.raises(WebhookFailed, match="HTTP"):
            send(hook)


def test_continue_is_not_the_answer() -> None:
    with listening() as hook:
        hook.answer = lambda to: to.sendall(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Sorry\r\n\r\n"
        )
        with pytest.raises(WebhookFailed, match="500"):
            send(hook)


def test_an_endless_first_line_is_cut_off() -> None:
    sent = 0

    def flood(to: socket.socket) -> None:
        nonlocal sent
        while True:
            sent += to.send(b"x" * 4_096)

    with listening() as hook:
        hook.answer = flood
        with pytest.raises(WebhookFailed, match="HTTP"):
            send(hook)
    assert sent < 8 * 1024 * 1024, "what the sockets hold, no more"


@pytest.mark.parametrize("is_dripping", [False, True])
def test_the_time_limit_is_for_the_whole_and_not_for_each_byte(is_dripping: bool) -> None:
    over = threading.Event()

    def slow(to: socket.socket) -> None:
        while not over.wait(0.05):
            if is_dripping:
                to.sendall(b"H")

    with listening() as hook:
        hook.answer = slow
        with pytest.raises(WebhookFailed, match="longer than 400 ms"):
            send(hook, timeout_ms=400)  # else it would go on for ever
        over.set()


def test_nobody_there_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WebhookFailed, match="connection"):
        post(f"http://127.0.0.1:{port}/", b"", {}, allowed=HERE)


def test_a_certificate_of_nobody_is_refused_before_a_byte_of_the_event_is_sent() -> None:
    with listening() as hook, pytest.raises(WebhookFailed):  # it speaks no TLS at all
        post(f"https://127.0.0.1:{hook.port}/", b"secret", {}, allowed=HERE, timeout_ms=1_000)
    assert not any(b"secret" in body for _, _, body in hook.requests)


def test_the_signature_is_what_the_documentation_says() -> None:
    expected = hmac.new(b"whs_1", b"1790000000." + b'{"a":1}', hashlib.sha256).hexdigest()
    assert signature("whs_1", 1_790_000_000, b'{"a":1}') == f"v1={expected}"
