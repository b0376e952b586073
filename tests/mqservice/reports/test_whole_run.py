"""One run as it is at night: a real engine, Spark as its own process, rows in PostgreSQL."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from pytest_django import Settings

from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS, MINUTE_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.reports import make_reports
from mqservice.reports.catalogue import REPORTS
from mqservice.reports.make_reports import run_reports
from mqservice.reports.models import ReportPart, ReportRun, RunState, Trigger
from mqservice.reports.programs import Failure
from mqservice.reports.spark import Outcome, run_spark
from mqservice.sampling.models import GroupSample
from mqservice.store import SnapshotRelease, SnapshotRequest, blocking_client
from tests.mqservice.reports.conftest import MakeRun
from tests.mqservice.tasks.desk import numbered, open_desk
from tests.people import People
from tests.sizes import IS_TORTURE
from tests.storage_engine.faults.machine import need_java

# ``make test`` has a report of the log, and one of each table that a run is given besides: Spark
# takes seconds for each. ``tests/analytics`` makes all of them, in one process.
MADE: Final = (
    tuple(REPORTS)
    if IS_TORTURE
    else ("usage_daily", "consumer_lag_hourly", "delivery_latency_daily")
)


def make_some(
    arguments: Sequence[str],
    **more: Any,  # Any: as of the real one
) -> Outcome:
    return run_spark([*arguments, "--jobs", ",".join(MADE)], **more)


def order(make_run: MakeRun, people: People) -> ReportRun:
    """Today, where it is noon now, so that no midnight passes while the test runs."""
    now = dt.datetime.now(dt.UTC)
    zone = f"Etc/GMT{now.hour - 12:+d}"  # west of Greenwich is positive there
    today = now.astimezone(ZoneInfo(zone)).date()
    return make_run(
        today, trigger=Trigger.BY_HAND.value, next_try_ms=0, namespace=people.acme, zone=zone
    )


@pytest.mark.sized
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
def test_what_was_stored_and_given_up_is_in_the_reports_of_its_tenant(
    report_settings: Settings,
    people: People,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_java()
    monkeypatch.setattr(make_reports, "run_spark", make_some)
    desk = open_desk(people.acme)
    desk.give_up(*numbered(7), keys=["k"])
    now_ms = SystemClock().now_ms() // MINUTE_MS * MINUTE_MS
    for minute, lag in enumerate((1_500, None, 40)):
        GroupSample.objects.create(
            namespace=people.acme, group_name=desk.group.name, topic=desk.topic.name,
            resolution_ms=MINUTE_MS, at_ms=now_ms // HOUR_MS * HOUR_MS + minute * MINUTE_MS,
            known_count=0 if lag is None else 6, lag_last=lag, lag_max=lag, settled_last=10,
        )  # fmt: skip
    run = order(make_run, people)
    ReportPart.objects.create(
        namespace=people.acme, report="usage_daily", date=run.from_date, zone="UTC", made_ms=0,
        is_complete=False, rows=[{"topic": "gone"}],
    )  # fmt: skip

    run_reports(run.public_id, SystemClock())

    run.refresh_from_db()
    assert (run.state, run.error, run.done_count) == (RunState.DONE, "", run.total_count)
    assert not run.is_complete  # its day is not over
    found = {
        report: [
            row
            for part in ReportPart.objects.filter(namespace=people.acme, report=report)
            for row in part.rows
            if row["topic"] == desk.topic.name or desk.topic.name in row.get("log_topic", "")
        ]
        for report in MADE
    }
    assert not ReportPart.objects.filter(rows__contains=[{"topic": "gone"}]).exists()
    assert sum(row["message_count"] for row in found["usage_daily"]) == 7
    if IS_TORTURE:
        assert sum(row["produced_count"] for row in found["throughput_hourly"]) == 7
        assert [(row["group"], row["message_count"]) for row in found["dlq_daily"]] == [
            (desk.group.name, 7)
        ]
    (latency,) = found["delivery_latency_daily"]
    assert (latency["outcome"], latency["message_count"]) == ("dead_lettered", 7)
    assert latency["uncertain_ms_max"] == 0 <= latency["settle_ms_max"] < latency["total_ms_max"]
    (lag,) = found["consumer_lag_hourly"]
    assert (lag["sample_count"], lag["unknown_count"]) == (3, 1)
    assert (lag["lag_max"], lag["lag_last"]) == (1_500, 40)
    for report, rows in found.items():
        if rows:
            assert set(rows[0]) == set(REPORTS[report].columns), report
    assert run.row_count >= sum(map(len, found.values()))
    tenants = set(ReportPart.objects.values_list("namespace__name", flat=True))
    assert tenants <= {"acme", "rival"}
    # Nothing is left behind: no work files, and the log is free again.
    assert list(report_settings.MQ_DATA_DIR.iterdir()) == []
    with blocking_client(MAIN_SHARD) as client:
        for _ in range(4):
            client.snapshot(SnapshotRequest(lease_ms=1))


def test_a_run_without_the_engine_is_tried_again(
    settings: Settings, tmp_path: Path, people: People, make_run: MakeRun
) -> None:
    settings.MQ_DATA_DIR = tmp_path / "data"
    settings.MQ_ENGINE_SOCKET = str(tmp_path / "none.sock")
    run = order(make_run, people)
    run_reports(run.public_id, SystemClock())
    run.refresh_from_db()
    assert (run.state, run.error_code) == (RunState.PENDING, Failure.ENGINE_AWAY)
    assert run.next_try_ms > 0


def test_without_java_the_reason_stays_with_the_run_and_old_results_stay(
    report_settings: Settings,
    people: People,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    run = order(make_run, people)
    part = ReportPart.objects.create(
        namespace=people.acme, report="usage_daily", date=run.from_date, zone="UTC", made_ms=0,
        is_complete=True, rows=[],
    )  # fmt: skip
    run_reports(run.public_id, SystemClock())
    run.refresh_from_db()
    assert (run.state, run.error_code) == (RunState.FAILED, Failure.NO_SPARK)
    assert re.search(r"analytics is off: .*(java|pyspark)", run.error)
    assert ReportPart.objects.get() == part


def test_a_log_that_was_not_kept_meanwhile_is_read_again(
    report_settings: Settings,
    people: People,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forget(*_: object, **__: object) -> None:
        """As a disk that fills up while Spark reads: every lease ends."""
        with blocking_client(MAIN_SHARD) as client:
            first = client.snapshot(SnapshotRequest(lease_ms=1)).snapshot_id
            client.snapshot_release(SnapshotRelease(snapshot_id=first - 1))

    monkeypatch.setattr(make_reports, "run_spark", forget)
    monkeypatch.setattr(
        make_reports, "load_rows", lambda *_: pytest.fail("it must not be believed")
    )
    run = order(make_run, people)
    run_reports(run.public_id, SystemClock())
    run.refresh_from_db()
    assert (run.state, run.error_code) == (RunState.PENDING, Failure.SNAPSHOT_LOST)
