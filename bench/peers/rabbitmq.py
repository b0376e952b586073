"""RabbitMQ: the management plug-in's HTTP API and Web STOMP, classic and quorum queues.

A node of its own name, cookie, ports, port mapper and directory; nothing of an installed broker's
is touched.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from bench.http_client import LeanHttp
from bench.measure import MeasureFailed, Skipped
from bench.peers.child import answers_on, child
from bench.peers.peer import Peer, PeerFacts, RestReceiver, RestWay, WayFacts, http_request
from bench.peers.stomp import StompConnection
from bench.peers.stomp_way import StompWay
from bench.peers.wires import WebSocketWire
from bench.processes import free_port, scratch_directory
from bench.ws_client import TEXT, LeanSocket

NAME: Final = "RabbitMQ"
# Debian's own start as another user with directories of its own; below it is RabbitMQ's.
PROGRAMS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
USER: Final = "guest"  # RabbitMQ's own default, on the loopback device only
BASIC: Final = base64.b64encode(f"{USER}:{USER}".encode()).decode()
PLUGINS: Final = "[rabbitmq_management,rabbitmq_web_stomp]."
CONFIG: Final = """\
listeners.tcp = none
management.tcp.ip = 127.0.0.1
management.tcp.port = {rest}
web_stomp.tcp.ip = 127.0.0.1
web_stomp.tcp.port = {web}
stomp.listeners.tcp.1 = 127.0.0.1:{stomp}
log.file = false
log.console = true
log.console.level = warning
"""
DURABILITIES: Final = {
    "classic": "durable classic queue, persistent, confirmed: after an fsync that covers it",
    "quorum": "quorum queue of one member, confirmed: after an fdatasync of its log",
}


@contextlib.asynccontextmanager
async def rabbitmq_running(base: Path) -> AsyncIterator[Peer]:
    """Raises Skipped when it is not installed."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    mapper = shutil.which("epmd")
    if program is None or mapper is None:
        raise Skipped("RabbitMQ is not installed; on Debian: apt-get install rabbitmq-server")
    with scratch_directory("rabbitmq", base) as directory:
        rest, web, mapper_port = free_port(), free_port(), free_port()
        config = directory / "rabbitmq.conf"
        config.write_text(CONFIG.format(rest=rest, web=web, stomp=free_port()))
        plugins = directory / "plugins"
        plugins.write_text(PLUGINS)
        environ = {
            **os.environ,
            "HOME": str(directory),  # where the cookie lies
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{rest}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }
        # Erlang would start one that nobody ends.
        with (
            child([mapper, "-port", str(mapper_port)], environ, directory) as names,
            child([program], environ, directory) as server,
        ):
            await names.wait_for(lambda: answers_on(mapper_port))
            await server.wait_for(lambda: answers_on(web))
            overview = await _overview(rest)
            roots = [server.pid, names.pid]
            kinds = list(DURABILITIES)
            yield Peer(
                facts=PeerFacts(
                    name=NAME,
                    version=f"{overview['rabbitmq_version']}, Erlang {overview['erlang_version']}",
                    setup="one node as it comes, with rabbitmq_management and rabbitmq_web_stomp; "
                    "a durable queue for each topic",
                ),
                sockets=[_RabbitStomp(kind, roots, rest, web) for kind in kinds],
                rests=[_RabbitRest(kind, roots, rest) for kind in kinds],
            )


async def _overview(port: int) -> dict[str, Any]:  # reason: of its JSON two texts are read
    async with _admin(port) as http:
        answer = await http.get("/overview")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


def _admin(port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}/api", auth=(USER, USER), trust_env=False, timeout=60
    )


class _Queues:
    """Queues of one kind, over the HTTP API."""

    def __init__(self, kind: str, port: int) -> None:
        self._http = _admin(port)
        self._kind = kind

    async def make_topic(self, topic: str) -> None:
        wanted = {"durable": True, "arguments": {"x-queue-type": self._kind}}
        answer = await self._http.put(f"/queues/%2f/{topic}", json=wanted)
        if answer.status_code != 201:
            raise MeasureFailed(f"{topic}: {answer.status_code} {answer.text[:300]}")

    async def drop_topic(self, topic: str) -> None:
        (await self._http.delete(f"/queues/%2f/{topic}")).raise_for_status()


class _RabbitStomp(_Queues, StompWay):
    prefetch_header = "prefetch-count"

    def __init__(self, kind: str, roots: Sequence[int], rest: int, web: int) -> None:
        super().__init__(kind, rest)
        self.facts = WayFacts(
            label=f"RabbitMQ Web STOMP, {kind}",
            peer=NAME,
            durability=DURABILITIES[kind],
            is_synced=True,
        )
        self.roots = roots
        self._web = web

    def destination(self, topic: str) -> str:
        return f"/amq/queue/{topic}"

    async def connect(self) -> StompConnection:
        socket = await LeanSocket.connect(f"ws://127.0.0.1:{self._web}/ws", subprotocol="v12.stomp")
        return await StompConnection.over(WebSocketWire(socket, TEXT), login=USER, passcode=USER)


class _RabbitRest(_Queues, RestWay):
    def __init__(self, kind: str, roots: Sequence[int], port: int) -> None:
        super().__init__(kind, port)
        self.facts = WayFacts(
            label=f"RabbitMQ HTTP API, {kind}",
            peer=NAME,
            durability=DURABILITIES[kind],
            is_synced=True,
        )
        self.roots = roots
        self._host = f"127.0.0.1:{port}"
        self.base_url = f"http://{self._host}"

    def requests(self, topics: Sequence[str], bodies: Sequence[bytes]) -> list[bytes]:
        (body,) = bodies
        return [
            http_request(
                "/api/exchanges/%2f/amq.default/publish",
                self._host,
                f"Basic {BASIC}",
                msgspec.json.encode(
                    {
                        "properties": {"delivery_mode": 2},
                        "routing_key": topic,
                        "payload": body.decode(),
                        "payload_encoding": "string",
                    }
                ),
            )
            for topic in topics
        ]

    def check_stored(self, answer: bytes) -> None:
        if answer != b'{"routed":true}':
            raise MeasureFailed(f"not stored: {answer!r}")

    async def receiver(self, topic: str, messages_max: int) -> RestReceiver:
        http = await LeanHttp.connect(self.base_url, key=BASIC, scheme="Basic")
        return _RabbitReceiver(http, topic, messages_max)


class _Got(msgspec.Struct):
    payload: str


_got = msgspec.json.Decoder(list[_Got])


class _RabbitReceiver:
    def __init__(self, http: LeanHttp, topic: str, messages_max: int) -> None:
        self._http = http
        self._path = f"/api/queues/%2f/{topic}/get"
        # The HTTP API acknowledges as it gets: there is no other way to.
        self._content = (
            b'{"count":%d,"ackmode":"ack_requeue_false","encoding":"auto"}' % messages_max
        )

    async def receive(self) -> int:
        return len(_got.decode(await self._http.post(self._path, self._content)))

    def close(self) -> None:
        self._http.close()
