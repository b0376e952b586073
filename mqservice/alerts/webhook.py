"""Posts an event to a webhook: one address, one request, no redirects, all within limits.

    URL ──▶ addresses.find_address ──▶ connect ──▶ POST, signed ──▶ status 2xx, or WebhookFailed

    X-MQ-Event: evt_…          the same at each attempt, for those who must not act twice
    X-MQ-Timestamp: 1790000000
    X-MQ-Signature: v1=HMAC-SHA-256(secret, timestamp "." body), in hex

Written on the socket itself, because libraries resolve the name again, follow redirects, ask
proxies and bound each step instead of the whole.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Final

from mqservice.alerts.addresses import (
    Address,
    Network,
    Resolve,
    Target,
    TargetRejected,
    find_address,
    parse_target,
    resolve,
)
from mqservice.alerts.limits import WEBHOOK_MS_MAX, WEBHOOK_RESPONSE_BYTES_MAX

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r?\n")
_READ_BYTES: Final = 4 * 1024


class WebhookFailed(Exception):
    """It was not taken; may be tried again. Says why, in words for the tenant."""


def signature(secret: str, timestamp_s: int, body: bytes) -> str:
    """What ``X-MQ-Signature`` says."""
    signed = b"%d." % timestamp_s + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allowed: Sequence[Network],
    timeout_ms: int = WEBHOOK_MS_MAX,
    resolve: Resolve = resolve,
    tls: ssl.SSLContext | None = None,
) -> int:
    """The status of a 2xx answer. Blocks for ``timeout_ms``, and as long as the look-up takes.

    Raises:
        TargetRejected: never to be tried again.
        WebhookFailed: everything else.
    """
    target = parse_target(url)
    try:
        address = find_address(target, allowed, resolve)
    except OSError:
        raise WebhookFailed("its host name cannot be resolved") from None
    ends_at = time.monotonic() + timeout_ms / 1_000
    try:
        with _connected(target, address, ends_at, tls) as connection:
            connection.settimeout(_left(ends_at))
            connection.sendall(_request(target, body, headers))
            status = _read_status(connection, ends_at)
    except ssl.SSLCertVerificationError as exc:
        raise WebhookFailed(f"its certificate is not valid: {exc.verify_message}") from exc
    except TimeoutError as exc:
        raise WebhookFailed(f"it took longer than {timeout_ms} ms") from exc
    except OSError as exc:
        raise WebhookFailed(f"the connection failed: {exc.strerror or 'broken'}") from exc
    if not 200 <= status < 300:
        raise WebhookFailed(f"it responded with {status}")
    return status


def _connected(
    target: Target, address: Address, ends_at: float, tls: ssl.SSLContext | None
) -> socket.socket:
    connection = socket.create_connection((str(address), target.port), _left(ends_at))
    if target.scheme != "https":
        return connection
    try:
        connection.settimeout(_left(ends_at))
        context = tls or ssl.create_default_context()
        return context.wrap_socket(connection, server_hostname=target.host)
    except BaseException:
        connection.close()
        raise


def _request(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    fields = {
        "Host": target.authority,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        "User-Agent": "mqservice-alerts/1",
        **headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    assert not any("\r" in line or "\n" in line for line in lines), "a header contains a line break"
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _read_status(connection: socket.socket, ends_at: float) -> int:
    """The status of the final answer; what comes behind its first line is not read."""
    answer = b""
    read_bytes = 0
    while read_bytes < WEBHOOK_RESPONSE_BYTES_MAX:
        connection.settimeout(_left(ends_at))
        chunk = connection.recv(_READ_BYTES)
        if not chunk:
            break
        read_bytes += len(chunk)
        answer += chunk
        while b"\n" in answer:
            found = _STATUS_LINE.match(answer)
            if found is None:
                raise WebhookFailed("it did not respond in HTTP")
            status = int(found[1])
            if status >= 200:
                return status
            _, end, rest = answer.partition(b"\r\n\r\n")
            if not end:
                break
            answer = rest  # that was 100 Continue or its like: the real one comes behind it
    raise WebhookFailed("it did not respond in HTTP")


def _left(ends_at: float) -> float:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


__all__ = ["TargetRejected", "WebhookFailed", "post", "signature"]
