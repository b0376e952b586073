"""This service as a peer of the others: REST and WebSocket, topics that sync and that do not.

Started as users start it. Its quotas are raised, because they would be what is measured.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.http_client import LeanHttp
from bench.machine import find_commit
from bench.measure import MeasureFailed
from bench.peers.peer import (
    Confirmed,
    Consumer,
    Peer,
    PeerFacts,
    Producer,
    RestReceiver,
    RestWay,
    Seen,
    SocketWay,
    WayFacts,
    http_request,
)
from bench.processes import Service, service_running
from bench.push_consumer import Pushed, consume
from bench.ws_client import BINARY, TEXT, LeanSocket, masked_frame
from mqservice.cli.client import RestClient
from mqservice.cli.target import Target
from mqservice.protocol import client_codec, frames
from mqservice.protocol.frames import Subprotocol
from mqservice.protocol.messages import PackedMessage, ProduceMessage

NAME: Final = "mqservice"
QUEUES: Final = 4
PUBLISH_ID: Final = 2
NO_QUOTA: Final = 1_000_000_000_000
RAISED: Final = (
    "messages_in_per_second",
    "bytes_in_per_second",
    "messages_out_per_second",
    "bytes_out_per_second",
    "control_requests_per_second",
)
DURABILITIES: Final = {
    "sync": "after an msync that covers it",
    "async": "after the append; the disk has it within 200 ms",
}


@contextlib.asynccontextmanager
async def ours_running(base: Path, **env: str) -> AsyncIterator[tuple[Peer, Service]]:
    async with service_running(base, **env) as service, _client(service) as client:
        _raise_quotas(service)
        kinds = list(DURABILITIES)
        yield (
            Peer(
                facts=PeerFacts(
                    name=NAME,
                    version=find_commit(),
                    setup=f"mqservice up, {service.web_count} web process"
                    f"{'es' if service.web_count > 1 else ''}, PostgreSQL and Valkey "
                    f"of its own; {QUEUES} queues for each topic, quotas raised; its CPU and "
                    "memory are those of all its processes",
                ),
                sockets=[
                    _OurSocket(service, client, subprotocol, kind)
                    for kind in kinds
                    for subprotocol in (Subprotocol.MSGPACK, Subprotocol.JSON)
                ],
                rests=[_OurRest(service, client, kind) for kind in kinds],
            ),
            service,
        )


def _raise_quotas(service: Service) -> None:
    """With the running service's own settings."""
    web = next(pid for name, pid in service.pids.items() if name.startswith("web"))
    pairs = Path(f"/proc/{web}/environ").read_bytes().split(b"\0")
    settings = dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)
    manage = Path(__file__).parents[2] / "manage.py"
    done = subprocess.run(
        [sys.executable, str(manage), "quota", *(f"{name}={NO_QUOTA}" for name in RAISED)],
        env={**os.environ, **settings, "MQ_PROCESS": "manage"},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise MeasureFailed(f"quotas were not raised: {done.stderr.decode()[-500:]}")


def _client(service: Service) -> RestClient:
    return RestClient(
        Target(base_url=service.base_url, key=service.api_key, namespace=service.namespace)
    )


class _Topics:
    """Topics of one durability, over REST."""

    def __init__(self, service: Service, client: RestClient, kind: str) -> None:
        self._service = service
        self._client = client
        self._kind = kind
        self.roots: Sequence[int] = [service.pids["supervisor"]]

    async def make_topic(self, topic: str) -> None:
        await self._client.create_topic(topic, queues=QUEUES, durability=self._kind)

    async def drop_topic(self, topic: str) -> None:
        await self._client.delete_topic(topic)

    def _facts(self, how: str) -> WayFacts:
        return WayFacts(
            label=f"mqservice {how}, {self._kind}",
            peer=NAME,
            durability=DURABILITIES[self._kind],
            is_synced=self._kind == "sync",
            is_ours=True,
        )


class _OurSocket(_Topics, SocketWay):
    def __init__(
        self, service: Service, client: RestClient, subprotocol: Subprotocol, kind: str
    ) -> None:
        super().__init__(service, client, kind)
        name = {Subprotocol.JSON: "JSON", Subprotocol.MSGPACK: "MessagePack"}[subprotocol]
        self.facts = self._facts(f"WebSocket {name}")
        self._subprotocol = subprotocol

    async def producer(self) -> Producer:
        socket = await LeanSocket.connect(
            self._service.ws_url, subprotocol=self._subprotocol, key=self._service.api_key
        )
        hello = client_codec.encode(frames.Hello(id=1, client="bench"), self._subprotocol)
        made = _OurProducer(socket, self._subprotocol)
        socket.write(made.frame(hello))
        await socket.receive()
        return made

    async def consumer(
        self, topic: str, *, window: int, consumers: int, seen: Seen, confirmed: Confirmed
    ) -> Consumer:
        service = msgspec.structs.replace(self._service, topic=topic)
        return _OurConsumer(service, self._subprotocol, seen, confirmed, window)


class _OurProducer:
    def __init__(self, socket: LeanSocket, subprotocol: Subprotocol) -> None:
        self._socket = socket
        self._subprotocol = subprotocol
        self._opcode = BINARY if subprotocol is Subprotocol.MSGPACK else TEXT

    def frame(self, content: bytes) -> bytes:
        return masked_frame(content, self._opcode)

    def request(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        publish: frames.JsonPublish | frames.PackPublish
        if self._subprotocol is Subprotocol.MSGPACK:
            packed = [PackedMessage(body) for body in bodies]
            publish = frames.PackPublish(id=PUBLISH_ID, topic=topic, m=packed)
        else:
            messages = [ProduceMessage(body.decode()) for body in bodies]
            publish = frames.JsonPublish(id=PUBLISH_ID, topic=topic, m=messages)
        return self.frame(client_codec.encode(publish, self._subprotocol))

    def send(self, requests: Sequence[bytes]) -> None:
        self._socket.write(b"".join(requests))

    async def confirmed(self) -> int:
        count = 0
        while not count:
            for push in client_codec.decode(await self._socket.receive(), self._subprotocol):
                if isinstance(push, frames.Ok) and push.r is not None:
                    results: list[dict[str, Any]] = push.r["results"]  # reason: the API's own JSON
                    refused = next((each for each in results if "code" in each), None)
                    if refused is not None:
                        raise MeasureFailed(f"not stored: {refused}")
                    count += len(results)
                elif isinstance(push, frames.Err):
                    raise MeasureFailed(f"the service refused: {push.code} {push.msg}")
                elif isinstance(push, frames.Ping):
                    pong = client_codec.encode(frames.Pong(), self._subprotocol)
                    self._socket.write(self.frame(pong))
        return count

    def close(self) -> None:
        self._socket.close()


class _OurConsumer:
    def __init__(
        self,
        service: Service,
        subprotocol: Subprotocol,
        seen: Seen,
        confirmed: Confirmed,
        window: int,
    ) -> None:
        self._service = service
        self._subprotocol = subprotocol
        self._seen = seen
        self._confirmed = confirmed
        self._window = window

    async def run(self) -> None:
        def bodies(messages: Sequence[Pushed]) -> None:
            self._seen([client_codec.body_of(message) for message in messages])

        await consume(
            self._service, self._subprotocol, self._confirmed, bodies, credit_msgs=self._window
        )

    def close(self) -> None:
        """``run`` closes its connection when it is cancelled."""


class _OurRest(_Topics, RestWay):
    batch_max = 100

    def __init__(self, service: Service, client: RestClient, kind: str) -> None:
        super().__init__(service, client, kind)
        self.facts = self._facts("REST")
        self.base_url = service.base_url

    def requests(self, topics: Sequence[str], bodies: Sequence[bytes]) -> list[bytes]:
        messages = [{"body": body.decode()} for body in bodies]
        is_one = len(messages) == 1
        content = msgspec.json.encode(messages[0] if is_one else messages)
        return [
            http_request(
                f"/v1/ns/{self._service.namespace}/topics/{topic}/messages"
                + ("" if is_one else ":batch"),
                self.base_url.removeprefix("http://"),
                f"Bearer {self._service.api_key}",
                content,
            )
            for topic in topics
        ]

    def check_stored(self, answer: bytes) -> None:
        if b'"code"' in answer or b'"offset"' not in answer:
            raise MeasureFailed(f"not stored: {answer[:300]!r}")

    async def receiver(self, topic: str, messages_max: int) -> RestReceiver:
        http = await LeanHttp.connect(self.base_url, key=self._service.api_key)
        root = f"/v1/ns/{self._service.namespace}"
        group = self._service.group
        return _OurReceiver(
            http,
            f"{root}/topics/{topic}/groups/{group}:receive",
            messages_max,
        )


class _Body(msgspec.Struct, frozen=True):
    body: str
    receipt: str


class _Settled(msgspec.Struct, frozen=True):
    acked: int


class _Received(msgspec.Struct, frozen=True):
    """As much of an answer as RabbitMQ's is read of."""

    messages: list[_Body]
    settled: _Settled = _Settled(0)


_received = msgspec.json.Decoder(_Received)


class _OurReceiver:
    """Acknowledges what came with the next receive: a message is confirmed one request later."""

    def __init__(self, http: LeanHttp, path: str, messages_max: int) -> None:
        self._http = http
        self._path = path
        self._options = b'{"max":%d,"wait":"0s"' % messages_max
        self._receipts = b""

    async def receive(self) -> int:
        """How many were acknowledged."""
        held, self._receipts = self._receipts, b""
        settle = b',"settle":{"ack":[' + held + b"]}}" if held else b"}"
        received = _received.decode(await self._http.post(self._path, self._options + settle))
        self._receipts = b",".join([b'"%s"' % each.receipt.encode() for each in received.messages])
        return received.settled.acked

    def close(self) -> None:
        self._http.close()
