"""``python -m bench.peers.sqs``: our SQS face beside ElasticMQ, in one run with one generator.

    SendMessage │ SendMessageBatch of ten │ ReceiveMessage of ten + DeleteMessageBatch
        1, 16 and 64 connections ─▶ by turns ─▶ evidence/peers-sqs.json ─▶ docs/peers.md

Requests are those of boto3: its headers, a signature of their own, and head and body sent one after
the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from bench.authorisation import made_key, settings_of
from bench.http_client import LeanHttp
from bench.machine import find_commit, find_machine
from bench.measure import MeasureFailed, Skipped
from bench.payloads import make_body
from bench.peers import elasticmq
from bench.peers.evidence import ROOT, Evidence, Section, read_evidence, write_evidence
from bench.peers.ours import ours_running
from bench.peers.peer import RestWay, WayFacts
from bench.peers.percentiles import Histogram
from bench.peers.render import PAGE, page_with
from bench.peers.turns import Measured, Timing, Turn, by_turns
from bench.peers.usage import UsageMeter
from bench.report import number
from bench.sqs import Signer

EVIDENCE: Final = ROOT / "evidence" / "peers-sqs.json"
MARKS: Final = ("<!-- sqs:begin -->", "<!-- sqs:end -->")
CONNECTIONS: Final = (1, 16, 64)
FILL_CONNECTIONS: Final = 16
BATCH: Final = 10
TIMES: Final = 3.0
SPARE: Final = 1.5  # more than was received in as long before
FIRST_COUNT: Final = 2_000
WEB_COUNT: Final = "2"  # ElasticMQ uses both cores, too
SDK_HEADERS: Final = (
    "accept-encoding:identity\n"
    "user-agent:Boto3/1.44.8 md/Botocore#1.44.8 ua/2.1 os/linux#6.1 md/arch#x86_64 "
    "lang/python#3.11.7 md/pyimpl#CPython m/Z,b,e cfg/retry-mode#legacy Botocore/1.44.8\n"
    "amz-sdk-invocation-id:0e0ab9a7-5c5d-4a1e-8f0b-6d4b52a1c0de\namz-sdk-request:attempt=1\n"
)


class Queue:
    """One queue of one server; ``way`` makes it where its durability is to be chosen."""

    def __init__(self, base_url: str, signer: Signer, way: RestWay | None = None) -> None:
        self.base_url, self._signer, self._way = base_url, signer, way
        self._url = ""
        body = make_body().decode()
        self._one = {"MessageBody": body}
        self._ten = {"Entries": [{"Id": str(at), **self._one} for at in range(BATCH)]}

    async def make(self, name: str) -> None:
        if self._way is not None:
            await self._way.make_topic(name)
        http = await LeanHttp.connect(self.base_url, key="")
        action = "GetQueueUrl" if self._way is not None else "CreateQueue"
        self._url = (await self._ask(http, action, QueueName=name))["QueueUrl"]
        http.close()

    async def drop(self) -> None:
        http = await LeanHttp.connect(self.base_url, key="")
        await self._ask(http, "DeleteQueue", QueueUrl=self._url)
        http.close()

    async def send(self, http: LeanHttp) -> int:
        await self._ask(http, "SendMessage", QueueUrl=self._url, **self._one)
        return 1

    async def send_batch(self, http: LeanHttp) -> int:
        sent = await self._ask(http, "SendMessageBatch", QueueUrl=self._url, **self._ten)
        return _all_of(sent, BATCH)

    async def receive(self, http: LeanHttp) -> int:
        found = await self._ask(
            http, "ReceiveMessage", QueueUrl=self._url, MaxNumberOfMessages=BATCH
        )
        entries = [
            {"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]}
            for at, each in enumerate(found.get("Messages", ()))
        ]
        if not entries:
            return 0
        deleted = await self._ask(http, "DeleteMessageBatch", QueueUrl=self._url, Entries=entries)
        return _all_of(deleted, len(entries))

    async def _ask(self, http: LeanHttp, action: str, **wanted: object) -> Any:  # Any: JSON
        head, end, body = self._signer.request(action, **wanted).partition(b"\r\n\r\n")
        content = await http.send_whole(head + end, body)
        return msgspec.json.decode(content) if content else {}


def _all_of(reply: Any, count: int) -> int:  # Any: JSON
    if len(reply["Successful"]) != count:
        raise MeasureFailed(f"not all succeeded: {reply}")
    return count


class SqsTurn(Turn):
    """One operation of one server over so many connections."""

    def __init__(
        self,
        facts: WayFacts,
        queue: Queue,
        roots: Sequence[int],
        *,
        connections: int,
        operation: Callable[[Queue, LeanHttp], Awaitable[int]],
    ) -> None:
        self.facts = facts
        self._queue, self._roots = queue, roots
        self._connections, self._operation = connections, operation
        self._is_receive = operation is Queue.receive
        self._rate = 0.0

    async def prepare(self, timing: Timing) -> None:
        operation = self._operation.__name__.replace("_", "-")
        kind = self.facts.label.rpartition(" ")[2]
        await self._queue.make(f"{operation}-{self._connections}-{kind}")
        self._rate = (await self._measured(timing.warm_up_seconds)).value

    async def once(self, timing: Timing) -> Measured:
        return await self._measured(timing.seconds)

    async def finish(self) -> None:
        await self._queue.drop()

    async def _measured(self, seconds: float) -> Measured:
        if self._is_receive:
            wanted = max(round(self._rate * seconds * SPARE), FIRST_COUNT)
            await self._load(Queue.send_batch, FILL_CONNECTIONS, 60.0, wanted, Histogram())
        latencies = Histogram()
        meter = UsageMeter(self._roots)
        rate = await self._load(self._operation, self._connections, seconds, None, latencies)
        self._rate = max(self._rate, rate)
        return Measured(
            value=rate,
            usage=meter.stop(),
            extra={
                "p50_ms": latencies.percentile_us(50) / 1_000,
                "p99_ms": latencies.percentile_us(99) / 1_000,
            },
        )

    async def _load(
        self,
        operation: Callable[[Queue, LeanHttp], Awaitable[int]],
        connections: int,
        seconds: float,
        count_max: int | None,
        latencies: Histogram,
    ) -> float:
        """Messages a second, until the time is over, so many were meant, or none is left."""
        count_sum = 0
        began = time.perf_counter()

        async def work() -> None:
            nonlocal count_sum
            http = await LeanHttp.connect(self._queue.base_url, key="")
            try:
                while (asked := time.perf_counter()) - began < seconds:
                    if count_max is not None and count_sum >= count_max:
                        break
                    count = await operation(self._queue, http)
                    if not count:
                        break
                    count_sum += count
                    latencies.record(round((time.perf_counter() - asked) * 1e6))
            finally:
                http.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(work())
        return count_sum / (time.perf_counter() - began)


OPERATIONS: Final[dict[str, Callable[[Queue, LeanHttp], Awaitable[int]]]] = {
    "SendMessage": Queue.send,
    "SendMessageBatch, 10": Queue.send_batch,
    "ReceiveMessage and DeleteMessageBatch, 10": Queue.receive,
}


async def measure(timing: Timing, base: Path) -> Evidence:
    """Raises Skipped without ElasticMQ."""
    began = time.perf_counter()
    async with contextlib.AsyncExitStack() as stack:
        own, service = await stack.enter_async_context(ours_running(base, MQ_WEB_WORKERS=WEB_COUNT))
        key = made_key(service, settings_of(service), "access").split()
        our_signer = Signer(service.base_url, *key, more=SDK_HEADERS)
        servers = [
            (
                msgspec.structs.replace(way.facts, label=way.facts.label.replace(" REST", "")),
                Queue(service.base_url, our_signer, way),
                way.roots,
            )
            for way in own.rests
        ]
        for option in elasticmq.DURABILITIES:
            running = elasticmq.elasticmq_running(base, option)
            facts, url, roots = await stack.enter_async_context(running)
            signer = Signer(url, "x", "x", path="/", more=SDK_HEADERS)
            servers.append((facts, Queue(url, signer), roots))
        sections = []
        for title, operation in OPERATIONS.items():
            for connections in CONNECTIONS:
                turns = [
                    SqsTurn(*server, connections=connections, operation=operation)
                    for server in servers
                ]
                title_here = f"{title} | {connections}"
                typer.echo(f"{time.perf_counter() - began:4.0f} s  {title_here} ...", err=True)
                figures, failed = await by_turns(title_here, turns, timing)
                sections.append(
                    Section(
                        key=title_here,
                        title=title_here,
                        unit="msg/s",
                        how="bodies of 1 KiB",
                        is_less_better=False,
                        figures=figures,
                        failed=failed,
                    )
                )
    return Evidence(
        taken_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        commit=find_commit(),
        machine=find_machine(base),
        timing=timing,
        seconds=round(time.perf_counter() - began, 1),
        peers=[own.facts, elasticmq.elasticmq_facts()],
        skipped={},
        sections=sections,
    )


def table(evidence: Evidence) -> str:
    """All figures as Markdown."""
    return "\n".join(_table(evidence))


def _table(evidence: Evidence) -> Iterator[str]:
    machine, timing = evidence.machine, evidence.timing
    yield (
        f"{machine.cpu}, {machine.cores} cores, Python {machine.python}; {evidence.taken_at[:10]}, "
        f"commit {evidence.commit}. {timing.repeats} runs of {timing.seconds:g} s each, "
        "alternating; medians are shown. "
        + " ".join(f"{each.name} {each.version}: {each.setup}." for each in evidence.peers)
    )
    yield (
        f"\nWanted: sync, ≥ {TIMES:g} times the rate of ElasticMQ where it writes each message. "
        "Cells have the four in this order:\n"
    )
    ways = next(section.figures for section in evidence.sections if not section.failed)
    yield from (f"1. {each.way.label}: confirmed {each.way.durability}" for each in ways)
    yield (
        "\n| action | connections | msg/s | sync / written | async / as it comes | p50 ms | p99 ms "
        "| µs of CPU each |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for section in evidence.sections:
        if section.failed:
            yield f"| {section.title} | {section.failed} | | | | | |"
            continue
        sync, unsynced, written, as_it_comes = (each.median for each in section.figures)
        ratio = f"{sync / written:.2f}"
        figures = [
            [each.median for each in section.figures],
            *([each.extra[name] for each in section.figures] for name in ("p50_ms", "p99_ms")),
            [each.usage.server_cores * 1e6 / each.median for each in section.figures],
        ]
        rate, *others = (" / ".join(map(number, row)) for row in figures)
        cells = [
            rate,
            ratio if sync >= TIMES * written else f"**{ratio}**",
            f"{unsynced / as_it_comes:.2f}",
            *others,
        ]
        yield f"| {section.title} | {' | '.join(cells)} |"


def render(evidence: Evidence) -> str:
    """The page with these figures."""
    return page_with(PAGE.read_text(), MARKS, table(evidence))


def main(seconds: float = 0.8, repeats: int = 3) -> None:
    """Measure, keep and render; of what is kept, with ``--repeats 0``."""
    if repeats:
        timing = Timing(seconds=seconds, warm_up_seconds=1, idle_seconds=0, repeats=repeats)
        try:
            # Not uvloop, which would send head and body at once.
            evidence = asyncio.run(measure(timing, Path(tempfile.gettempdir())))
        except (Skipped, MeasureFailed) as exc:
            typer.echo(f"nothing was measured: {exc}", err=True)
            raise typer.Exit(1) from exc
        write_evidence(EVIDENCE, evidence)
    evidence = read_evidence(EVIDENCE)
    typer.echo(table(evidence))
    PAGE.write_text(render(evidence))


if __name__ == "__main__":
    typer.run(main)
