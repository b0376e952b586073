"""NATS with JetStream: streams in files, over TCP and over WebSocket, pushed and pulled.

    publish with a reply subject ─▶ stream ─▶ ack {"stream", "seq"}
    durable consumer, explicit acks ─▶ messages ─▶ +ACK each; the last of a piece asks for an answer

Acks are taken in the order they come, so the answer to the last one stands for those before it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from bench.measure import MeasureFailed, Skipped
from bench.peers.child import answers_on, child
from bench.peers.nats_wire import NatsConnection, NatsMessage, make_publish
from bench.peers.peer import (
    Confirmed,
    Consumer,
    Peer,
    PeerFacts,
    Producer,
    Seen,
    SocketWay,
    WayFacts,
)
from bench.peers.wires import TcpWire, WebSocketWire, Wire
from bench.processes import free_port, scratch_directory
from bench.ws_client import BINARY, LeanSocket

NAME: Final = "NATS JetStream"
PROGRAM: Final = "nats-server"
ACK: Final = b"+ACK"
GROUP: Final = "bench"
PULL_EXPIRES_NS: Final = 30_000_000_000
PUSHED: Final = b"_deliver.bench"
DATA_SID: Final = 2
DURABILITY: Final = (
    "file store, one replica; written to the file, synced every two minutes and not before the ack"
)
CONFIG: Final = """\
listen: "127.0.0.1:{tcp}"
websocket {{ listen: "127.0.0.1:{web}", no_tls: true }}
jetstream {{ store_dir: "{store}", max_file_store: 100G }}
"""


@contextlib.asynccontextmanager
async def nats_running(base: Path) -> AsyncIterator[Peer]:
    """Raises Skipped when nats-server is not installed."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise Skipped("nats-server is not installed; on Debian: apt-get install nats-server")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)  # noqa: ASYNC221  # reason: before anything runs
    with scratch_directory("nats", base) as directory:
        tcp, web = free_port(), free_port()
        config = directory / "nats.conf"
        config.write_text(CONFIG.format(tcp=tcp, web=web, store=directory / "store"))
        with child([program, "-c", str(config)], dict(os.environ), directory) as server:
            await server.wait_for(lambda: answers_on(web))
            roots = [server.pid]
            yield Peer(
                facts=PeerFacts(
                    name=NAME,
                    version=said.stdout.strip().removeprefix("nats-server: v"),
                    setup="one server; a stream in files for each topic, one replica; consumers "
                    "durable, with explicit acks",
                ),
                sockets=[
                    _NatsWay("WebSocket, push", roots, web=web),
                    _NatsWay("WebSocket, pull", roots, web=web, is_pulled=True),
                    _NatsWay("TCP, push", roots, tcp=tcp),
                    _NatsWay("TCP, pull", roots, tcp=tcp, is_pulled=True),
                ],
            )


class _NatsWay(SocketWay):
    def __init__(
        self,
        how: str,
        roots: Sequence[int],
        *,
        tcp: int = 0,
        web: int = 0,
        is_pulled: bool = False,
    ) -> None:
        self.facts = WayFacts(
            label=f"NATS, {how}", peer=NAME, durability=DURABILITY, is_synced=False
        )
        self.roots = roots
        self._tcp, self._web = tcp, web
        self._is_pulled = is_pulled

    async def make_topic(self, topic: str) -> None:
        await self._ask(
            f"$JS.API.STREAM.CREATE.{topic}",
            {
                "name": topic,
                "subjects": [topic],
                "storage": "file",
                "retention": "limits",
                "num_replicas": 1,
            },
        )

    async def drop_topic(self, topic: str) -> None:
        await self._ask(f"$JS.API.STREAM.DELETE.{topic}", {})

    async def producer(self) -> Producer:
        return _NatsProducer(await self._connect())

    async def consumer(
        self, topic: str, *, window: int, consumers: int, seen: Seen, confirmed: Confirmed
    ) -> Consumer:
        config: dict[str, object] = {
            "durable_name": GROUP,
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "max_ack_pending": window * consumers,
        }
        subject = PUSHED + b"." + topic.encode()
        if not self._is_pulled:
            config |= {"deliver_subject": subject.decode(), "deliver_group": GROUP}
        await self._ask(
            f"$JS.API.CONSUMER.DURABLE.CREATE.{topic}.{GROUP}",
            {"stream_name": topic, "config": config},
        )
        connection = await self._connect()
        ask = b""
        if self._is_pulled:
            subject = b"_INBOX.pull." + str(id(connection)).encode()
            connection.send(b"SUB %s %d\r\n" % (subject, DATA_SID))
            ask = b"$JS.API.CONSUMER.MSG.NEXT.%s.%s" % (topic.encode(), GROUP.encode())
        else:
            connection.send(b"SUB %s %s %d\r\n" % (subject, GROUP.encode(), DATA_SID))
        return _NatsConsumer(connection, seen, confirmed, window, ask, subject)

    async def _connect(self) -> NatsConnection:
        wire: Wire
        if self._web:
            socket = await LeanSocket.connect(f"ws://127.0.0.1:{self._web}/")
            wire = WebSocketWire(socket, BINARY)
        else:
            wire = await TcpWire.connect("127.0.0.1", self._tcp)
        return await NatsConnection.over(wire)

    async def _ask(self, subject: str, question: object) -> None:
        connection = await self._connect()
        try:
            await connection.ask(subject, question)
        finally:
            connection.close()


class _NatsProducer:
    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection

    def request(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        return b"".join(
            make_publish(topic.encode(), body, self._connection.answers) for body in bodies
        )

    def send(self, requests: Sequence[bytes]) -> None:
        self._connection.send(b"".join(requests))

    async def confirmed(self) -> int:
        acks = await self._connection.receive()
        for ack in acks:
            if b'"seq"' not in ack.body or b'"error"' in ack.body:
                raise MeasureFailed(f"not stored: {ack.head!r} {ack.body!r}")
        return len(acks)

    def close(self) -> None:
        self._connection.close()


class _NatsConsumer:
    def __init__(
        self,
        connection: NatsConnection,
        seen: Seen,
        confirmed: Confirmed,
        window: int,
        ask: bytes,
        inbox: bytes,
    ) -> None:
        self._connection = connection
        self._seen = seen
        self._confirmed = confirmed
        self._half = max(window // 2, 1)
        self._ask = ask
        self._inbox = inbox
        self._asked = 0
        self._unconfirmed: deque[int] = deque()

    async def run(self) -> None:
        while True:
            self._pull()
            self._take(await self._connection.receive())

    def close(self) -> None:
        self._connection.close()

    def _pull(self) -> None:
        while self._ask and self._asked <= self._half:
            question = b'{"batch":%d,"expires":%d}' % (self._half, PULL_EXPIRES_NS)
            self._connection.send(make_publish(self._ask, question, self._inbox))
            self._asked += self._half

    def _take(self, messages: list[NatsMessage]) -> None:
        come: list[NatsMessage] = []
        for message in messages:
            if message.subject == self._connection.answers:
                self._confirmed(self._unconfirmed.popleft())
            elif message.head and not message.reply:
                # A pull request that ended before it was filled; its rest is asked for again.
                self._asked = 0
            else:
                come.append(message)
        if not come:
            return
        self._asked -= len(come)
        self._seen([message.body for message in come])
        acks = [b"PUB %s 4\r\n%s\r\n" % (message.reply, ACK) for message in come[:-1]]
        acks.append(make_publish(come[-1].reply, ACK, self._connection.answers))
        self._unconfirmed.append(len(come))
        self._connection.send(b"".join(acks))
