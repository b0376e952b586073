"""``python -m bench.day DIRECTORY``: two weeks through the real engine, the last day's report.

    tenants' load, minute by minute ──▶ Store (real, its clock is ours) ──▶ analytics ──▶ NAME.html
                                             └── what sampling would see ──▶ lag.csv, settles.csv

acme has a group that is too slow for its day and a topic with poison in it, globex a burst in the
afternoon, initech is small. The thirteen days before are coarser, and without the poison.
"""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, Final

import typer

from bench.payloads import BORN_HOST, SEED, make_body
from storage_engine.config import StoreConfig
from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import StoreError
from storage_engine.puts.put_path import Appended
from storage_engine.records.record import Record, StoreMessage, encode_record
from storage_engine.records.record_run import decode_records
from storage_engine.store import Store
from storage_engine.wire.deliveries import LeaseRef, Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.groups import GroupConfig, StartFrom
from storage_engine.wire.topics import Durability, TopicConfig

MINUTE_MS: Final = 60_000
DAY_MS: Final = 24 * 60 * MINUTE_MS
DAYS: Final = 14
COARSE_MINUTES: Final = 30
CONSUMED_AFTER_MS: Final = 2_000
LEASE_MS: Final = 4 * 60 * MINUTE_MS
RECEIVED_MAX: Final = 256
RETRY_MS: Final = 5 * MINUTE_MS
ATTEMPTS_MAX: Final = 3
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
REASONS: Final = (
    "ledger: currency XQZ is not one of ISO 4217",
    "ledger: amount is negative",
    "upstream: bank timed out after 30 s",
)


@dataclass(frozen=True)
class Topic:
    """``rate``: messages a minute at noon. ``burst``: (first, last minute, times as many)."""

    name: str
    queues: int
    rate: int
    keys: int
    burst: tuple[int, int, int] = (0, 0, 1)


@dataclass(frozen=True)
class Group:
    """``capacity``: messages a minute at most. ``poison``: the share that it cannot take."""

    name: str
    topic: str
    capacity: int
    poison: float = 0.0


TOPICS: Final = (
    Topic("acme%orders", 4, 40, 400),
    Topic("acme%payments", 2, 20, 300),
    Topic("globex%telemetry", 4, 25, 40, burst=(14 * 60, 14 * 60 + 25, 30)),
    Topic("globex%commands", 1, 4, 40),
    Topic("initech%tps-reports", 1, 2, 5),
)
GROUPS: Final = (
    Group("acme%billing", "acme%orders", 400),
    Group("acme%search-index", "acme%orders", 24),
    Group("acme%ledger", "acme%payments", 200, poison=0.02),
    Group("globex%archive", "globex%telemetry", 120),
    Group("globex%alarms", "globex%telemetry", 2_000),
    Group("globex%devices", "globex%commands", 100),
    Group("initech%mailer", "initech%tps-reports", 20),
)


class SteppedClock:
    """Stands still until it is moved on."""

    def __init__(self, now_ms: int) -> None:
        self.wall_ms = now_ms

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.wall_ms


@dataclass
class Load:
    """The engine with what goes on around it."""

    store: Store
    clock: SteppedClock
    random: Random = field(default_factory=lambda: Random(SEED))
    body: bytes = field(default_factory=make_body)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    async def pass_minutes(self, minutes: int, *, has_poison: bool) -> None:
        """Produce, consume and fail as much as in so many minutes, at their end."""
        self.clock.wall_ms += minutes * MINUTE_MS - CONSUMED_AFTER_MS
        minute = self.clock.wall_ms % DAY_MS // MINUTE_MS
        is_weekend = dt.datetime.fromtimestamp(self.clock.wall_ms / 1e3, dt.UTC).weekday() >= 5
        for topic in TOPICS:
            wave = 0.35 + 0.65 * math.sin(math.pi * minute / 1_440) ** 2
            count = topic.rate * wave * minutes * (0.6 if is_weekend else 1)
            first, last, times = topic.burst
            if has_poison and first <= minute < last:
                count *= times
            await self._put(topic, round(count * self.random.uniform(0.8, 1.2)))
        self.clock.wall_ms += CONSUMED_AFTER_MS
        for group in GROUPS:
            self._consume(group, group.capacity * minutes, has_poison=has_poison)
        await self.rest()

    async def rest(self) -> None:
        """Until nothing more follows from what happened so far."""
        appended = -1
        while appended < self.store.stats(0).append_offset:
            appended = self.store.stats(0).append_offset
            self.store.tick()
            await self.store.durability.durable_to(appended)
            for _ in range(5):
                await asyncio.sleep(0)

    async def _put(self, topic: Topic, count: int) -> None:
        stamp = self.clock.wall_ms
        done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()

        def answered(appended: Appended, stored_ms: int, error: StoreError | None) -> None:
            done.set_result(error)

        if not count:
            return
        records = []
        for _ in range(count):
            self.counts[topic.name] += 1
            number = self.counts[topic.name]
            # A few keys are far more frequent than the others.
            key = int(topic.keys * self.random.random() ** 3)
            made = StoreMessage(
                topic=topic.name, queue_id=number % topic.queues, keys=[f"customer-{key}"],
                body=self.body[: self.random.randrange(120, 900)],
                message_id=f"{TOPICS.index(topic):02}{number:030}",
                born_timestamp_ms=stamp - self.random.randrange(5, 400), born_host=BORN_HOST,
            )  # fmt: skip
            records.append(encode_record(made))
        self.store.put(b"".join(records), answered)
        error = await done
        if error is not None:
            raise error

    def _consume(self, group: Group, capacity: int, *, has_poison: bool) -> None:
        while capacity > 0:
            generation, records = self._receive(group, min(capacity, RECEIVED_MAX))
            capacity -= max(1, len(records))
            if not records:
                return
            acks, nacks = [], []
            for record in records:
                if has_poison and self._is_poison(group, record):
                    nacks.append(self._nack(record, generation))
                else:
                    acks.append(
                        LeaseRef(
                            topic=record.topic, queue_id=record.queue_id,
                            lease_generation=generation, queue_offsets=[record.queue_offset],
                        )
                    )  # fmt: skip
            request = SettleRequest(group=group.name, acks=acks, nacks=nacks)
            reply = self.store.consumption.settle(request)
            assert not reply.failures, reply.failures

    def _receive(self, group: Group, count: int) -> tuple[int, list[Record]]:
        answers: list[tuple[int, list[Record]]] = []

        def answered(delivered: Delivered) -> None:
            records = decode_records(self.store.read_records(delivered.records))
            answers.append((delivered.lease_generation, records))

        request = ReceiveRequest(
            group=group.name, topic=group.topic, member_id="m", messages_max=count,
            bytes_max=BATCH_BYTES_MAX, wait_ms=0, lease_ms=LEASE_MS,
        )  # fmt: skip
        self.store.consumption.receive(request, answered)
        return answers[0]

    def _is_poison(self, group: Group, record: Record) -> bool:
        return record.reconsume_times > 0 or self.random.random() < group.poison

    def _nack(self, record: Record, generation: int) -> Nack:
        (*_, reason) = self.random.choices(REASONS, (8, 3, 2))
        return Nack(
            topic=record.topic, queue_id=record.queue_id, lease_generation=generation,
            queue_offset=record.queue_offset, delay_ms=RETRY_MS, reason=reason,
            is_dead=record.reconsume_times + 1 >= ATTEMPTS_MAX,
        )  # fmt: skip


@dataclass
class Observer:
    """What sampling would have written down of the day."""

    lags: list[tuple[Any, ...]] = field(default_factory=list)  # Any: columns of the export
    marks: list[tuple[Any, ...]] = field(default_factory=list)  # Any: as of the marks' query

    def look(self, load: Load, minutes: int) -> None:
        from mqservice.groups.lag import lag_of
        from mqservice.sampling.progress_marks import GroupPositions, positions_of

        now_ms = load.clock.wall_ms
        for group in GROUPS:
            stats = load.store.consumption.group_stats(group.name)
            tenant, _, name = group.name.partition("%")
            for each in stats.topics:
                lag = lag_of([each], now_ms)
                topic = each.topic.partition("%")[2]
                row = now_ms, tenant, name, topic, lag.count, lag.known_age_ms
                self.lags.append(row)
            for topic, blob in positions_of(GroupPositions(0, name, stats.queues)):
                self.marks.append((tenant, name, topic, now_ms - minutes * MINUTE_MS, now_ms, blob))

    def write(self, directory: Path, from_ms: int) -> None:
        from mqservice.reports import lag_export, settle_export

        _write(directory / "lag.csv", lag_export.COLUMNS, iter(self.lags))
        rows = (
            (tenant, group, f"{topic}{group}" if topic == "%RETRY%" else topic, *row)
            for (tenant, group, topic), marks in groupby(
                sorted(self.marks, key=lambda mark: mark[:3]), key=lambda mark: mark[:3]
            )
            for row in settle_export.ranges_of(marks, from_ms)
        )
        _write(directory / "settles.csv", settle_export.COLUMNS, rows)


def main(directory: Path, last: str = "2026-01-14") -> None:
    """Make the days up to ``last``, run the night, and write a page for each tenant."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    os.environ.setdefault("MQ_SECRET_KEY", "x" * 40)
    os.environ.setdefault("DATABASE_URL", "postgres://nobody@127.0.0.1/none")
    import django

    django.setup()
    date = dt.date.fromisoformat(last)
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(_live(directory, date))
    first = date - dt.timedelta(days=DAYS - 1)
    end = date + dt.timedelta(days=1)
    code = subprocess.run(
        [
            sys.executable, "-m", "analytics", "run", "--store", str(directory / "store"),
            "--lake", str(directory / "lake"), "--out", str(directory / "out"),
            "--from", first.isoformat(), "--to", end.isoformat(), "--master", "local[2]",
            "--lag-samples", str(directory / "lag.csv"), "--progress",
            "--settles", str(directory / "settles.csv"), "--rows", str(directory / "rows.jsonl"),
        ],
        check=False,
    ).returncode  # fmt: skip
    if code:
        raise typer.Exit(code)
    _draw(directory, date)


async def _live(directory: Path, date: dt.date) -> None:
    day_ms = round(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp() * 1_000)
    clock = SteppedClock(day_ms - (DAYS - 1) * DAY_MS)
    store = Store(StoreConfig(store_dir=str(directory / "store")), clock)
    store.open(asyncio.get_running_loop())
    load, observer = Load(store, clock), Observer()
    for topic in TOPICS:
        store.catalog.topic_put(
            TopicConfig(topic=topic.name, queue_count=topic.queues, durability=Durability.ASYNC)
        )
    for group in GROUPS:
        store.catalog.group_put(GroupConfig(group=group.name, start_from=StartFrom.EARLIEST))
    while clock.wall_ms < day_ms + DAY_MS - MINUTE_MS:
        is_fine = clock.wall_ms >= day_ms
        minutes = 1 if is_fine else COARSE_MINUTES
        await load.pass_minutes(minutes, has_poison=is_fine)
        observer.look(load, minutes)
    await store.close()
    observer.write(directory, day_ms - (DAYS - 1) * DAY_MS)
    print(json.dumps({"messages": sum(load.counts.values())}), flush=True)


def _draw(directory: Path, date: dt.date) -> None:
    """Pages as the service would draw them, of the rows that it would load."""
    from mqservice.reports.day import day_of
    from mqservice.reports.models import ReportPart
    from mqservice.reports.page import page_of
    from mqservice.reports.results import read_lines

    parts: dict[str, list[ReportPart]] = defaultdict(list)
    lines = read_lines(directory / "rows.jsonl")
    for (report, day, tenant), found in groupby(
        lines, key=lambda line: (line.report, line.date, line.tenant)
    ):
        rows = [line.row for line in found]
        parts[tenant].append(
            ReportPart(report=report, date=day, zone="UTC", rows=rows, is_complete=True, made_ms=0)
        )
    for tenant, of_tenant in parts.items():
        page = directory / f"{tenant}.html"
        page.write_text(page_of(day_of(tenant, date, of_tenant)), encoding="utf-8")
        print(page)


def _write(path: Path, columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


if __name__ == "__main__":
    typer.run(main)
