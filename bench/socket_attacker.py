"""``python -m bench.socket_attacker URL KEY TOPIC GROUP ATTACK SECONDS``: one hostile client.

    connect ─▶ hello, sub ─▶ the attack's bytes, again and again ─▶ connection lost ─▶ connect ...

Runs in a process of its own, with sockets that block, so that what it costs is not added to what
the neighbour measures. Prints how often it connected and how many bytes it got rid of, as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from bench.ws_client import BINARY, PING, TEXT, masked_frame

MIB: Final = 1024 * 1024
FRAME_BYTES: Final = 4 * MIB - 64
BURST_BYTES: Final = 2 * MIB
RECONNECT_S: Final = 0.2
SID: Final = 1
NO_MASK: Final = b"\0\0\0\0"
CONTINUED: Final = 0x0
FIN: Final = 0x80


class AttackReport(msgspec.Struct):
    connections: int = 0
    bytes_sent: int = 0
    closes: dict[str, int] = {}


class Attack(msgspec.Struct, frozen=True):
    """``content`` makes the bytes that are sent over and over. ``piece``: bytes of one send."""

    subprotocol: str
    content: Callable[[str, str], bytes]
    piece: int = 256 * 1024


def filled(line: bytes, size: int) -> bytes:
    return line * (size // len(line))


def json_frame(content: bytes) -> bytes:
    return masked_frame(content, TEXT)


def many(command: bytes, frames: int = 20_000) -> bytes:
    return json_frame(command) * frames


def fragments(size: int) -> bytes:
    """One message of 4 MiB in fragments of ``size`` bytes that never ends."""
    first = bytes((TEXT, 0x80 | size)) + NO_MASK + b" " * size
    other = bytes((CONTINUED, 0x80 | size)) + NO_MASK + b" " * size
    last = bytes((FIN | CONTINUED, 0x80 | 2)) + NO_MASK + b"{}"
    return first + other * ((4 * MIB) // size - 2) + last


def pack_array(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4)


def _pongs() -> bytes:
    count = FRAME_BYTES // 2
    return masked_frame(pack_array(count) + b"\x91\x11" * count, BINARY)


def _publishes(topic: str, group: str) -> bytes:
    messages = b",".join([b'{"body":"x"}'] * 1_000)
    return json_frame(b'{"op":"pub","topic":"%s","m":[%s]}' % (topic.encode(), messages)) * 20


def _empty_messages(topic: str, group: str) -> bytes:
    messages = b",".join([b'{"body":""}'] * (FRAME_BYTES // 12))
    return json_frame(b'{"op":"pub","topic":"%s","m":[%s]}' % (topic.encode(), messages))


def _empty_packed_messages(topic: str, group: str) -> bytes:
    head = b"\x94\x03\xc0" + msgspec.msgpack.encode(topic)
    count = (FRAME_BYTES - len(head)) // 3
    return masked_frame(head + pack_array(count) + b"\x91\xc4\x00" * count, BINARY)


def _nested(topic: str, group: str) -> bytes:
    return json_frame(b'{"op":"x","z":[' + filled(b"[],", FRAME_BYTES - 32) + b"1]}")


def _tags(topic: str, group: str) -> bytes:
    return json_frame(b'{"op":"ack","sid":1,"t":[' + filled(b"1,", FRAME_BYTES - 64) + b"1]}")


def _subscriptions(topic: str, group: str) -> bytes:
    sub = b'{"op":"sub","sid":2,"topic":"%s","group":"%s"}' % (topic.encode(), group.encode())
    return (json_frame(sub) + json_frame(b'{"op":"unsub","sid":2}')) * 5_000


JSON: Final = "mq.v1.json"
PACK: Final = "mq.v1.msgpack"
ATTACKS: Final[dict[str, Attack]] = {
    "empty pings": Attack(JSON, lambda t, g: filled(masked_frame(b"", PING), BURST_BYTES)),
    "4 MiB of {} lines": Attack(JSON, lambda t, g: json_frame(filled(b"{}\n", FRAME_BYTES))),
    "4 MiB of [17]": Attack(PACK, lambda t, g: _pongs()),
    "2-byte fragments": Attack(JSON, lambda t, g: fragments(2)),
    "1-byte segments": Attack(JSON, lambda t, g: many(b"{}", 200_000), piece=1),
    "acks of nothing": Attack(JSON, lambda t, g: many(b'{"op":"ack","sid":1,"t":[9]}')),
    "credit": Attack(JSON, lambda t, g: many(b'{"op":"credit","sid":1,"msgs":1}')),
    "extends": Attack(JSON, lambda t, g: many(b'{"op":"extend","sid":1,"t":[9],"ms":60000}')),
    "hello again": Attack(JSON, lambda t, g: many(b'{"op":"hello","id":1}')),
    "small frames and pings": Attack(
        JSON, lambda t, g: (json_frame(b"{}") + masked_frame(b"", PING)) * 100_000
    ),
    "1,000 publishes of 1 byte": Attack(JSON, _publishes),
    "350,000 empty messages": Attack(JSON, _empty_messages),
    "1,400,000 empty messages": Attack(PACK, _empty_packed_messages),
    "4 MiB of nested arrays": Attack(JSON, _nested),
    "2,000,000 tags": Attack(JSON, _tags),
    "sub and unsub": Attack(JSON, _subscriptions),
}


def connected(url: str, subprotocol: str, key: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname is not None
    made = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    nonce = base64.b64encode(os.urandom(16)).decode()
    made.sendall(
        (
            f"GET {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\nupgrade: websocket\r\n"
            "connection: Upgrade\r\nsec-websocket-version: 13\r\n"
            f"sec-websocket-key: {nonce}\r\nsec-websocket-protocol: {subprotocol}\r\n"
            f"authorization: Bearer {key}\r\n\r\n"
        ).encode()
    )
    answer = made.recv(4_096)
    if not answer.startswith(b"HTTP/1.1 101"):
        raise OSError(answer[:80].decode("latin-1"))
    return made


def read_all(connection: socket.socket, report: AttackReport) -> None:
    """So that nothing is held back because the attacker does not read."""
    last = b""
    try:
        while content := connection.recv(256 * 1024):
            last = (last + content)[-130:]
    except OSError:
        pass
    at = last.rfind(b"\x88")
    reason = last[at + 2 :] if at >= 0 else b""
    name = f"{int.from_bytes(reason[:2])}: {reason[2:].decode(errors='replace')}" if reason else "-"
    report.closes[name] = report.closes.get(name, 0) + 1


def attack(url: str, key: str, topic: str, group: str, name: str, seconds: float) -> AttackReport:
    one = ATTACKS[name]
    content = one.content(topic, group)
    sub = {"op": "sub", "id": 2, "sid": SID, "topic": topic, "group": group}
    if one.subprotocol == JSON:
        greeting = json_frame(b'{"op":"hello","id":1,"resume_ttl_ms":0}') + json_frame(
            msgspec.json.encode(sub)
        )
    else:
        greeting = masked_frame(msgspec.msgpack.encode([1, 1, None, None, None, 0]), BINARY)
    report = AttackReport(closes={})
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            connection = connected(url, one.subprotocol, key)
        except OSError as exc:
            report.closes[str(exc)[:60]] = report.closes.get(str(exc)[:60], 0) + 1
            time.sleep(RECONNECT_S)
            continue
        report.connections += 1
        reader = threading.Thread(target=read_all, args=(connection, report))
        reader.start()
        try:
            connection.sendall(greeting)
            _send_on(connection, content, one.piece, deadline, report)
        except OSError:
            pass  # cut off: come back
        with contextlib.suppress(OSError):  # the service has closed it already
            connection.shutdown(socket.SHUT_RDWR)
        reader.join()
        connection.close()
        time.sleep(RECONNECT_S)
    return report


def _send_on(
    connection: socket.socket, content: bytes, piece: int, deadline: float, report: AttackReport
) -> None:
    connection.settimeout(0.5)
    view, at = memoryview(content), 0
    while time.monotonic() < deadline:
        try:
            sent = connection.send(view[at : at + piece])
        except TimeoutError:
            continue  # the service reads nothing now
        report.bytes_sent += sent
        at = (at + sent) % len(content)


if __name__ == "__main__":
    url, key, topic, group, name, seconds = sys.argv[1:]
    found = attack(url, key, topic, group, name, float(seconds))
    sys.stdout.write(msgspec.json.encode(found).decode())
