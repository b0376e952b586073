"""What a message costs a web process over SQS and over REST, by turns: CPU, signature included.

SendMessage, signed ─────────────────▶ web process ◀── POST …/messages
ReceiveMessage, DeleteMessageBatch ──▶             ◀── :receive, :settle   (10 messages each)

Every request is signed anew, as SDKs do.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from bench.authorisation import made_key, settings_of
from bench.http_client import LeanHttp
from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.payloads import make_body
from bench.processes import Service, service_running

WORKLOAD: Final = "sqs"
SEND_TARGET: Final = 0.6
RECEIVE_TARGET: Final = 0.5
CONNECTIONS: Final = 16
TURNS: Final = 5  # of each kind in one run
BATCH: Final = 10
_FILL_BATCH: Final = 100
_FILL_RATE: Final = 20_000  # more than one process receives in a second
_REGION: Final = "eu-central-1"
_SIGNED: Final = "content-type;host;x-amz-date;x-amz-target"
Work = Callable[[LeanHttp], Awaitable[int]]  # how many messages one request, or two, were for


class Signer:
    """Makes whole requests to SQS of an access key. ``more`` are lines of headers, not signed."""

    def __init__(
        self, base_url: str, key_id: str, secret: str, *, path: str = "/sqs/", more: str = ""
    ) -> None:
        self._host = urlsplit(base_url).netloc
        self._key_id, self._secret = key_id, secret
        self._path, self._more = path, more
        self._day, self._key = "", b""

    def request(self, action: str, **wanted: object) -> bytes:
        body = msgspec.json.encode(wanted)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        scope = f"{stamp[:8]}/{_REGION}/sqs/aws4_request"
        if self._day != stamp[:8]:
            self._day, self._key = stamp[:8], f"AWS4{self._secret}".encode()
            for part in scope.split("/"):
                self._key = hmac.digest(self._key, part.encode(), "sha256")
        head = (
            f"content-type:application/x-amz-json-1.0\nhost:{self._host}\nx-amz-date:{stamp}\n"
            f"x-amz-target:AmazonSQS.{action}\n"
        )
        canonical = f"POST\n{self._path}\n\n{head}\n{_SIGNED}\n{hashlib.sha256(body).hexdigest()}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        signed = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
        signature = hmac.digest(self._key, signed.encode(), "sha256").hex()
        fields = (
            f"POST {self._path} HTTP/1.1\n{head}{self._more}authorization:AWS4-HMAC-SHA256 "
            f"Credential={self._key_id}/{scope}, SignedHeaders={_SIGNED}, Signature={signature}\n"
            f"content-length:{len(body)}\n\n"
        )
        return fields.replace("\n", "\r\n").encode() + body


class Loads:
    """The work of both faces on one topic; of the group of its name, as SQS has it."""

    def __init__(self, service: Service, signer: Signer, queue_url: str) -> None:
        self._signer, self._queue_url = signer, queue_url
        self._topic = f"/v1/ns/{service.namespace}/topics/{service.topic}"
        self._group = f"/v1/ns/{service.namespace}/groups/{service.topic}"
        self._receive = f"{self._topic}/groups/{service.topic}:receive"
        text = make_body().decode()
        self._text = text
        self._one = msgspec.json.encode({"body": text})
        self._many = msgspec.json.encode([{"body": text}] * _FILL_BATCH)

    async def ask(self, http: LeanHttp, action: str, **wanted: object) -> Any:  # Any: JSON
        request = self._signer.request(action, QueueUrl=self._queue_url, **wanted)
        content = await http.send_whole(request)
        return msgspec.json.decode(content) if content else {}

    async def produce(self, http: LeanHttp) -> int:
        await http.post(f"{self._topic}/messages", self._one)
        return 1

    async def send(self, http: LeanHttp) -> int:
        await self.ask(http, "SendMessage", MessageBody=self._text)
        return 1

    async def fill(self, http: LeanHttp) -> int:
        await http.post(f"{self._topic}/messages:batch", self._many)
        return _FILL_BATCH

    async def receive_by_rest(self, http: LeanHttp) -> int:
        content = await http.post(self._receive, b'{"max":%d,"wait":"0s"}' % BATCH)
        receipts = [each["receipt"] for each in msgspec.json.decode(content)["messages"]]
        if receipts:
            await http.post(f"{self._group}:settle", msgspec.json.encode({"ack": receipts}))
        return len(receipts)

    async def receive_by_sqs(self, http: LeanHttp) -> int:
        found = await self.ask(
            http, "ReceiveMessage", MaxNumberOfMessages=BATCH, AttributeNames=["All"]
        )
        entries = [
            {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]}
            for at, message in enumerate(found.get("Messages", ()))
        ]
        if entries:
            await self.ask(http, "DeleteMessageBatch", Entries=entries)
        return len(entries)


async def measure(plan: Plan, base: Path) -> list[Row]:
    async with service_running(base) as service:
        key = made_key(service, settings_of(service), "access")
        signer = Signer(service.base_url, *key.split())
        http = await LeanHttp.connect(service.base_url, key=service.api_key)
        found = await http.send_whole(signer.request("GetQueueUrl", QueueName=service.topic))
        loads = Loads(service, signer, msgspec.json.decode(found)["QueueUrl"])
        await loads.receive_by_sqs(http)  # which makes the group
        http.close()
        sends = await _by_turns(plan, service, loads.produce, loads.send)
        receives = await _by_turns(
            plan, service, loads.receive_by_rest, loads.receive_by_sqs, fill=loads.fill
        )
    return [
        _row(plan, "SendMessage / produce one", sends, SEND_TARGET),
        _row(plan, f"receive and delete {BATCH} / REST", receives, RECEIVE_TARGET),
    ]


async def _by_turns(
    plan: Plan, service: Service, rest: Work, sqs: Work, *, fill: Work | None = None
) -> list[tuple[float, float]]:
    """(CPU in us of a message, messages in a second) of REST and of SQS: medians."""
    turn_s = plan.duration_ms / 1_000 / TURNS
    taken: list[list[tuple[float, float]]] = [[], []]
    for turn in range(1 + plan.repeats * TURNS):
        for found, work in zip(taken, (rest, sqs), strict=True):
            if fill is not None:
                await _turn(service, fill, 60.0, count_max=round(_FILL_RATE * turn_s))
            one = await _turn(service, work, turn_s)
            if turn:  # the first only warms up
                found.append(one)
    return [(median(us for us, _ in each), median(rate for _, rate in each)) for each in taken]


async def _turn(
    service: Service, work: Work, seconds: float, *, count_max: int | None = None
) -> tuple[float, float]:
    """Until the time is over, as many messages were meant, or there is nothing more to do."""
    pids = [pid for name, pid in service.pids.items() if name.startswith("web")]
    begun, before = time.perf_counter(), sum(map(cpu_seconds, pids))
    count_sum = 0

    async def client() -> None:
        nonlocal count_sum
        http = await LeanHttp.connect(service.base_url, key=service.api_key)
        try:
            while time.perf_counter() - begun < seconds and count_sum < (count_max or 1 << 60):
                count = await work(http)
                if not count:
                    break
                count_sum += count
        finally:
            http.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    if not count_sum:
        raise MeasureFailed("there was nothing to do")
    used_us = (sum(map(cpu_seconds, pids)) - before) * 1e6
    return used_us / count_sum, count_sum / (time.perf_counter() - begun)


def _row(plan: Plan, name: str, found: list[tuple[float, float]], target: float) -> Row:
    (rest_us, rest_rate), (sqs_us, sqs_rate) = found
    figures = {
        "us": sqs_us, "us by REST": rest_us, "msg/s": sqs_rate, "msg/s by REST": rest_rate,
    }  # fmt: skip
    return row_of(
        [Run(rate=rest_us / sqs_us, extra=figures)],
        workload=WORKLOAD,
        name=name,
        unit="ratio",
        setting=(
            f"1 KiB bodies, {CONNECTIONS} connections, CPU of the web process for a message, "
            f"median of {plan.repeats * TURNS} turns; {plan.text}"
        ),
        target=target,
    )
