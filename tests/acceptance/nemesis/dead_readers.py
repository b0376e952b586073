"""Clients that never read: they must not stop others, or make a process larger and larger."""

from __future__ import annotations

import json
import socket
import struct
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import httpx
from websockets.client import ClientProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from tests.acceptance.nemesis.site import Site

DEAD_READERS: Final = 20
# Not acked and not extended: others get them soon.
DEAD_LEASE_MS: Final = 2_000
DEAD_CREDIT: Final = 20
RECEIVE_BUFFER_BYTES: Final = 4_096
# With RST: the peer is gone, as when its machine lost its power.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class DeadReaders:
    """Clients that subscribe, never read a byte, and vanish after seconds without a word."""

    name: str = "clients that never read"

    def fire(self, site: Site) -> None:
        with ExitStack() as stack:
            readers = [self._subscribed(site) for _ in range(DEAD_READERS)]
            for reader in readers:
                stack.callback(_vanish, reader)
            threading.Event().wait(DEAD_LEASE_MS / 1_000)  # so long they hold what they have got
            site.must_flow(self.name, "stopped")
            fired_count = sum(map(_has_messages, readers))
        site.load.run.fired[self.name] += fired_count
        if not fired_count:
            site.load.run.anomalies.append(("fault-never-fired", f"{self.name} were sent nothing"))
        site.must_heal(f"{self.name} are gone")

    def _subscribed(self, site: Site) -> socket.socket:
        facts = site.facts
        protocol = ClientProtocol(parse_uri(facts.ws_url), subprotocols=[Subprotocol("mq.v1.json")])
        request = protocol.connect()
        request.headers["Authorization"] = f"Bearer {facts.api_key}"
        protocol.send_request(request)
        sub = {"op": "sub", "id": 2, "sid": 1, "topic": facts.topic, "group": facts.group,
               "lease_ms": DEAD_LEASE_MS, "auto_extend_ms": 0,
               "credit": {"msgs": DEAD_CREDIT, "bytes": 65_536}}  # fmt: skip
        url = httpx.URL(facts.base_url)
        made = socket.create_connection((url.host, url.port), timeout=60)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        _send(made, protocol)
        while not protocol.events_received():
            protocol.receive_data(made.recv(4_096))
        for frame in ({"op": "hello", "id": 1, "resume_ttl_ms": 0}, sub):
            protocol.send_text(json.dumps(frame).encode())
        _send(made, protocol)
        return made


def _send(made: socket.socket, protocol: ClientProtocol) -> None:
    for data in protocol.data_to_send():
        made.sendall(data)


def _has_messages(reader: socket.socket) -> bool:
    """Whether the service has sent any; what was sent stays unread."""
    try:
        return b'"op":"msgs"' in reader.recv(65_536, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except (BlockingIOError, ConnectionError):
        return False


def _vanish(each: socket.socket) -> None:
    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    each.close()
