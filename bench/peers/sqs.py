"""``python -m bench.peers.sqs``: our SQS face beside ElasticMQ, in one run with one generator.

    SendMessage │ SendMessageBatch of ten │ ReceiveMessage of ten + DeleteMessageBatch
        1, 16 and 64 connections ─▶ by turns ─▶ evidence/peers-sqs.json ─▶ docs/peers.md

Requests are those of boto3: its headers, a signature of their own, and head and body sent one after
the other. Both store what they confirm.
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
from bench.peers.elasticmq import FACTS, elasticmq_running
from bench.peers.evidence import ROOT, Evidence, Section, read_evidence, write_evidence
from bench.peers.ours import DURABILITIES, NAME, ours_running
from bench.peers.peer import WayFacts
from bench.peers.percentiles import Histogram
from bench.peers.render import PAGE, page_with
from bench.peers.turns import Figure, Measured, Timing, Turn, by_turns
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
OUR_FACTS: Final = WayFacts(
    label=NAME, peer=NAME, durability=DURABILITIES["sync"], is_synced=True, is_ours=True
)
SDK_HEADERS: Final = (
    "accept-encoding:identity\n"
    "user-agent:Boto3/1.44.8 md/Botocore#1.44.8 ua/2.1 os/linux#6.1 md/arch#x86_64 "
    "lang/python#3.11.7 md/pyimpl#CPython m/Z,b,e cfg/retry-mode#legacy Botocore/1.44.8\n"
    "amz-sdk-invocation-id:0e0ab9a7-5c5d-4a1e-8f0b-6d4b52a1c0de\namz-sdk-request:attempt=1\n"
)


class Queue:
    """One queue of one server."""

    def __init__(self, base_url: str, signer: Signer) -> None:
        self.base_url, self._signer = base_url, signer
        self._url = ""
        body = make_body().decode()
        self._one = {"MessageBody": body}
        self._ten = {"Entries": [{"Id": str(at), **self._one} for at in range(BATCH)]}

    async def make(self, name: str) -> None:
        http = await LeanHttp.connect(self.base_url, key="")
        self._url = (await self._ask(http, "CreateQueue", QueueName=name))["QueueUrl"]
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
        name = f"{self._operation.__name__.replace('_', '-')}-{self._connections}"
        await self._queue.make(f"bench-{name}")
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
        facts, their_url, their_roots = await stack.enter_async_context(elasticmq_running(base))
        own, service = await stack.enter_async_context(ours_running(base))
        key = made_key(service, settings_of(service), "access").split()
        our_signer = Signer(service.base_url, *key, more=SDK_HEADERS)
        their_signer = Signer(their_url, "x", "x", path="/", more=SDK_HEADERS)
        sections = []
        for title, operation in OPERATIONS.items():
            for connections in CONNECTIONS:
                turns = [
                    SqsTurn(
                        way, Queue(url, signer), roots, connections=connections, operation=operation
                    )
                    for way, url, signer, roots in (
                        (OUR_FACTS, service.base_url, our_signer, own.rests[0].roots),
                        (FACTS, their_url, their_signer, their_roots),
                    )
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
        peers=[own.facts, facts],
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
        f"{' '.join(f'{each.name} {each.version}: {each.setup}.' for each in evidence.peers[1:])}"
    )
    yield (
        f"\nConfirmed by {OUR_FACTS.label} {OUR_FACTS.durability}; by {FACTS.label} "
        f"{FACTS.durability}. Wanted: ≥ {TIMES:g} times its rate.\n"
    )
    yield (
        "| action | connections | msg/s | ElasticMQ | ratio | p50, p99 ms | ElasticMQ | µs of CPU "
        "each | ElasticMQ |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for section in evidence.sections:
        if section.failed:
            yield f"| {section.title} | {section.failed} | | | | | | |"
            continue
        own, other = section.figures
        ratio = own.median / other.median
        cells = [
            number(own.median),
            number(other.median),
            f"{ratio:.2f}" if ratio >= TIMES else f"**{ratio:.2f}**",
            *(f"{number(f.extra['p50_ms'])}, {number(f.extra['p99_ms'])}" for f in (own, other)),
            *(number(_cpu_us(each)) for each in (own, other)),
        ]
        yield f"| {section.title} | {' | '.join(cells)} |"


def _cpu_us(figure: Figure) -> float:
    return figure.usage.server_cores * 1e6 / figure.median


def render(evidence: Evidence) -> str:
    """The page with these figures."""
    return page_with(PAGE.read_text(), MARKS, table(evidence))


def main(seconds: float = 1.0, repeats: int = 3) -> None:
    """Measure, keep and render; of what is kept, with ``--repeats 0``."""
    if repeats:
        timing = Timing(seconds=seconds, warm_up_seconds=2, idle_seconds=0, repeats=repeats)
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
