"""Reports over several shards: of what real engines ship to a bucket, and of nothing else."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from pytest_django import Settings

from analytics.shards import Source, read_shards
from mqservice.accounts.models import Namespace
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.reports import make_reports
from mqservice.reports.make_reports import run_reports
from mqservice.reports.models import ReportPart, RunState
from mqservice.reports.programs import Failure, RunFailed
from mqservice.reports.shard_copies import LeftOut, copy_shards
from mqservice.reports.spark import Outcome
from mqservice.shards.models import Shard
from mqservice.shards.queries import forget_shard_names
from mqservice.store import TopicRef, blocking_client
from storage_engine.reader import find_extent
from tests.engine import running_engine
from tests.mqservice.reports.conftest import MakeRun
from tests.mqservice.reports.test_whole_run import order
from tests.mqservice.tasks.desk import numbered, open_desk
from tests.people import People
from tests.storage_engine.faults.machine import need_java
from tests.storage_engine.independent_reader import read_log

LIMITS = {
    "MQ_ENGINE_SEGMENT_BYTES": "65536",
    "MQ_ENGINE_PREFAULT_BYTES": "0",
    "MQ_ENGINE_SNAPSHOT_LOG_ENTRIES": "4",  # so that the log is trimmed soon
    "MQ_ENGINE_REPLICATION_INTERVAL_MS": "20",
}


@dataclass
class Shards:
    """Engines by the names of their shards, and the bucket of them all."""

    bucket: Path
    sockets: dict[str, str]
    engines: dict[str, ExitStack] = field(default_factory=dict)

    def start(self, shard: str) -> None:
        env = LIMITS | {
            "MQ_ENGINE_SHARD": shard, "MQ_ENGINE_REPLICATED_LOG": self.bucket.as_uri(),
        }  # fmt: skip
        self.engines[shard] = ExitStack()
        self.sockets[shard] = self.engines[shard].enter_context(running_engine(env))

    def stop(self, shard: str) -> None:
        """And its directory is gone."""
        self.engines.pop(shard).close()

    def stored(self) -> Counter[str]:
        """How many messages each topic got, as the engines' queues say; of namespaces only."""
        found: Counter[str] = Counter()
        for shard in self.engines:
            with blocking_client(shard) as client:
                for topic in client.topic_list().topics:
                    queues = client.topic_stats(TopicRef(topic=topic.topic)).queues
                    found[topic.topic] += sum(queue.max_offset for queue in queues)
        return Counter({name: count for name, count in found.items() if "%" in name and count})

    def is_trimmed(self, shard: str) -> bool:
        """And has entries again: before its first one, and right after a trim, it has none."""
        names = [path.name for path in (self.bucket / "wal" / shard).glob("*")]
        return min((int(name) for name in names if name.isdigit()), default=0) > 1


@pytest.fixture
def shards(
    settings: Settings, db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Shards]]:
    """Starts engines of these shards, the main one among them."""
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    monkeypatch.setenv("MQ_REPLICATED_LOG", bucket.as_uri())
    settings.MQ_REPLICATED_LOG = True
    settings.MQ_ENGINE_SOCKET = str(tmp_path / "none.sock")
    made = Shards(bucket, {})

    def start(*names: str) -> Shards:
        for name in names:
            made.start(name)
            if name == MAIN_SHARD:
                settings.MQ_ENGINE_SOCKET = made.sockets[name]
            Shard.objects.create(name=name, address=made.sockets[name])
        forget_shard_names()
        return made

    yield start
    for name in list(made.engines):
        made.stop(name)
    forget_shard_names()


def place(namespace: Namespace, shard: str) -> Namespace:
    namespace.shard = shard
    namespace.save(update_fields=["shard"])
    return namespace


def reported(report: str, column: str, key: str) -> Counter[str]:
    """Sums over all namespaces."""
    found: Counter[str] = Counter()
    for part in ReportPart.objects.filter(report=report):
        for row in part.rows:
            found[row[key]] += row[column]
    return Counter({name: count for name, count in found.items() if count})


class Spark:
    """In the place of Spark: counts what is in the copies, and gives each tenant a row of that."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}
        self.stored: Counter[str] = Counter()

    def __call__(self, arguments: Sequence[str], **_: object) -> Outcome:
        given = dict(zip(arguments[::2], arguments[1::2], strict=False))
        self.sources = {each.shard: each for each in read_shards(given["--shards"])}
        rows = []
        for shard, source in self.sources.items():
            if source.store is None:
                rows.append(("lost", 1))  # the lake may have something of before
                continue
            assert source.end_offset is not None, shard
            for record in read_log(Path(source.store)):
                assert record.physical_offset < source.end_offset
                self.stored[record.topic] += 1
        rows += [
            (topic.partition("%")[0], count)
            for topic, count in self.stored.items()
            if not topic.startswith("%")
        ]
        line = {"report": "usage_daily", "date": given["--from"], "rows_left_out": 0}
        with Path(given["--rows"]).open("w") as file:
            for tenant, count in sorted(rows):
                file.write(json.dumps({**line, "tenant": tenant, "row": {"count": count}}) + "\n")
        incomplete = {"main": [], "s2": [given["--from"]], "s3": [given["--from"]]}
        return Outcome({}, incomplete, {"usage_daily": len(rows)})


def test_a_run_reads_every_shard_and_names_the_one_that_it_cannot_read(
    spark_settings: Settings,
    people: People,
    make_run: MakeRun,
    shards: Callable[..., Shards],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    spark_settings.MQ_ENGINE_STORE_DIR = tmp_path / "no-store"
    cluster = shards("main", "s2")
    Shard.objects.create(name="s3")  # of which the bucket has nothing
    lost = Namespace.objects.create(tenant=people.acme.tenant, name="lost", shard="s3")
    open_desk(people.acme).give_up(*numbered(3))
    open_desk(place(people.rival, "s2")).give_up(*numbered(4))
    run = make_run(next_try_ms=0)
    for namespace in (lost, people.acme):
        ReportPart.objects.create(
            namespace=namespace, report="usage_daily", date=run.from_date, zone="UTC", made_ms=0,
            is_complete=True, rows=[{"count": 77}],
        )  # fmt: skip
    spark = Spark()
    monkeypatch.setattr(make_reports, "run_spark", spark)
    Namespace.objects.update(created_at="2026-01-01T00:00Z")  # before the day of the run

    run_reports(run.public_id, SystemClock())

    run.refresh_from_db()
    assert (run.state, run.error_code) == (RunState.PENDING, Failure.SHARDS_LEFT_OUT), run.error
    assert run.error.endswith(": s3")
    assert spark.sources["s3"].store is None
    assert spark.stored == cluster.stored()
    parts = {part.namespace.name: part for part in ReportPart.objects.select_related("namespace")}
    assert {name: part.rows[0]["count"] for name, part in parts.items()} == {
        "lost": 77, "acme": 3, "rival": 4,
    }  # fmt: skip
    assert {name: part.is_complete for name, part in parts.items()} == {
        "lost": True, "acme": True, "rival": False,
    }  # fmt: skip


@pytest.mark.torture
@pytest.mark.timeout(1_800)
@pytest.mark.xdist_group("spark")
def test_the_reports_of_a_day_are_the_sum_of_the_engines_truths(
    spark_settings: Settings,
    tmp_path: Path,
    people: People,
    make_run: MakeRun,
    shards: Callable[..., Shards],
) -> None:
    """Twice: while messages come, then of all of them."""
    need_java()
    spark_settings.MQ_ENGINE_STORE_DIR = tmp_path / "no-store"
    cluster = shards("main", "s2", "s3")
    third = Namespace.objects.create(tenant=people.acme.tenant, name="third", shard="s3")
    desks = [open_desk(each) for each in (people.acme, place(people.rival, "s2"), third)]
    given_up = Counter[str]()

    def give_up(count: int) -> None:
        for number, desk in enumerate(desks, 1):
            desk.give_up(*numbered(count * number), keys=["k"])
            given_up[desk.topic.name] += count * number

    def report() -> None:
        run = order(make_run, people)
        run_reports(run.public_id, SystemClock())
        run.refresh_from_db()
        assert (run.state, run.error) == (RunState.DONE, "")

    give_up(400)
    report()
    while not all(map(cluster.is_trimmed, cluster.engines)):
        give_up(30)
    report()
    assert reported("throughput_hourly", "stored_count", "log_topic") == cluster.stored()
    for name in ("usage_daily", "dlq_daily"):
        assert reported(name, "message_count", "topic") == given_up


class Copier:
    """Two shards that have stored messages, and copies of them."""

    def __init__(self, cluster: Shards, people: People, directory: Path) -> None:
        self.cluster = cluster
        self.desk = open_desk(place(people.rival, "s2"))
        self.directory = directory
        self._numbers = count()
        open_desk(people.acme).give_up(*numbered(2))
        while not cluster.is_trimmed("s2"):
            self.desk.give_up(*numbered(2))

    def copy(self, to_ms: int) -> tuple[dict[str, Source], list[LeftOut]]:
        work = self.directory / f"work{next(self._numbers)}"
        work.mkdir()
        file, left_out = copy_shards(
            ["main", "s2"], work, from_ms=0, to_ms=to_ms, limit_s=60, clock=SystemClock(),
            still_wanted=lambda: True,
        )  # fmt: skip
        return {each.shard: each for each in read_shards(str(file))}, left_out


@pytest.fixture
def copier(people: People, shards: Callable[..., Shards], tmp_path: Path) -> Copier:
    return Copier(shards("main", "s2"), people, tmp_path)


def test_copies_go_as_far_as_their_engines_say(copier: Copier) -> None:
    cluster = copier.cluster
    before_ms = SystemClock().now_ms()
    found, left_out = copier.copy(before_ms + HOUR_MS)
    assert left_out == []
    for shard, source in found.items():
        store = Path(cluster.sockets[shard]).parent / "store"
        assert source.end_offset == find_extent(store).end_offset
        assert source.as_of_ms is not None
        assert source.as_of_ms >= before_ms
    # Without its engine a shard is known up to its last message.
    cluster.stop("s2")
    found, (lacking,) = copier.copy(before_ms + HOUR_MS)
    assert (lacking.shard, lacking.is_unread) == ("s2", False)
    assert "does not say how far its log goes" in lacking.reason
    last_ms = found["s2"].as_of_ms
    assert last_ms is not None
    assert last_ms <= before_ms
    assert copier.copy(last_ms)[1] == []


@pytest.mark.torture
def test_a_shard_without_its_snapshots_is_named_unless_nobody_lives_there(
    copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(copier.cluster.bucket / "snapshots" / "s2")
    found, (lacking,) = copier.copy(0)
    assert (lacking.shard, lacking.is_unread) == ("s2", True)
    assert "no snapshot has them" in lacking.reason
    assert found["s2"].store is None
    assert found["main"].store is not None
    Namespace.objects.filter(shard="s2").update(shard="main")
    assert copier.copy(0)[1] == []
    # What refuses one refuses all, and says why.
    with monkeypatch.context() as patched, pytest.raises(RunFailed, match="belongs to") as caught:
        patched.setenv("MQ_ENGINE_DEPLOYMENT", "another")
        copier.copy(0)
    assert caught.value.failure is Failure.LOG_REFUSED
    shutil.rmtree(copier.cluster.bucket / "snapshots" / "main")
    shutil.rmtree(copier.cluster.bucket / "wal" / "main")
    with pytest.raises(RunFailed) as caught:
        copier.copy(0)
    assert caught.value.failure is Failure.STORE_UNREADABLE
    assert "s2: " in caught.value.tail


def test_without_a_replicated_log_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MQ_REPLICATED_LOG", raising=False)
    with pytest.raises(RunFailed, match="set MQ_REPLICATED_LOG") as caught:
        copy_shards(
            ["main", "s2"], tmp_path, from_ms=0, to_ms=0, limit_s=1, clock=SystemClock(),
            still_wanted=lambda: True,
        )  # fmt: skip
    assert caught.value.failure is Failure.ARGUMENTS
