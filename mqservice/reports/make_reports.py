"""One run from its claim to its rows: snapshot, export, Spark, load.

    claim ──▶ lag, settles ──▶ snapshot of the log ──▶ Spark ──▶ still held? ──▶ rows ──▶ done

Whatever fails leaves the results of before. The snapshot keeps retention from the log meanwhile; if
the disk took it away, files may be missing from what was read, and the run is repeated.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import transaction

from mqservice.lib.clock import Clock
from mqservice.lib.durations import MINUTE_MS, SECOND_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.reports.due_days import Plan
from mqservice.reports.emails import queue_emails
from mqservice.reports.lag_export import write_lag_samples
from mqservice.reports.limits import RENEW_MS
from mqservice.reports.models import ReportRun
from mqservice.reports.results import load_rows
from mqservice.reports.runs import claim, fail, finish, renew
from mqservice.reports.settle_export import are_marks_available, write_settles
from mqservice.reports.spark import Failure, Outcome, Progress, RunFailed, RunSuperseded, run_spark
from mqservice.shards.queries import shard_names
from mqservice.store import SnapshotRelease, SnapshotRequest, StoreError, blocking_client

log = logging.getLogger(__name__)

_LEASE_MARGIN_MS = 5 * MINUTE_MS


def run_reports(public_id: str, clock: Clock) -> None:
    """Make the reports of one run. Takes minutes or hours; nothing when it is another one's."""
    run = claim(public_id, clock.now_ms())
    if run is None:
        return
    try:
        _make(run, clock)
    except RunSuperseded:
        log.warning(
            "Another worker took over this report run, or it was cancelled",
            extra={"action": "report_run_superseded", "run": public_id},
        )
    except RunFailed as exc:
        log.error(
            "A report run failed",
            extra={
                "action": "report_failed",
                "run": public_id,
                "failure": exc.failure.value,
                "said": str(exc),
                "tail": exc.tail,
            },
        )
        fail(run, exc.failure, str(exc), clock.now_ms())


def _make(run: ReportRun, clock: Clock) -> None:
    if len(shard_names()) > 1:  # half of the truth would look like all of it
        raise RunFailed(
            Failure.ARGUMENTS,
            "reports read the store of one engine so far, and this installation has several shards",
        )
    settings.MQ_DATA_DIR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="report-", dir=settings.MQ_DATA_DIR) as directory:
        work = Path(directory)
        plan = Plan(dt.time(), run.zone)
        from_ms, to_ms = plan.day_start_ms(run.from_date), plan.day_start_ms(run.to_date)
        write_lag_samples(work / "lag.csv", from_ms, to_ms)
        # Without marks the report of before stays, which had them.
        if are_marks_available(from_ms, clock.now_ms()):
            write_settles(work / "settles.csv", from_ms, to_ms)
        heart = _ClaimRenewer(run, clock)
        with _snapshot() as end_offset:
            outcome = run_spark(
                _arguments(run, work, end_offset),
                limit_s=settings.MQ_REPORTS_LIMIT_S,
                clock=clock,
                tell=heart.on_progress,
                still_wanted=heart.renew_if_due,
            )
        _load(run, work / "rows.jsonl", outcome, clock.now_ms())
    log.info(
        "Reports written",
        extra={"action": "reports_written", "run": run.public_id, "rows": outcome.report_rows},
    )


def _load(run: ReportRun, path: Path, outcome: Outcome, now_ms: int) -> None:
    with transaction.atomic():
        row_count = load_rows(path, run, outcome, now_ms)
        if not finish(run, outcome, row_count):
            raise RunSuperseded
        queue_emails(run, now_ms)


def _arguments(run: ReportRun, work: Path, end_offset: int) -> list[str]:
    given = [
        "--store", str(settings.MQ_ENGINE_STORE_DIR), "--lake", settings.MQ_REPORTS_LAKE,
        "--out", settings.MQ_REPORTS_OUT, "--from", run.from_date.isoformat(),
        "--to", run.to_date.isoformat(), "--zone", run.zone, "--end-offset", str(end_offset),
        "--lag-samples", str(work / "lag.csv"), "--rows", str(work / "rows.jsonl"), "--progress",
        "--master", settings.MQ_REPORTS_MASTER, "--driver-memory", settings.MQ_REPORTS_MEMORY,
    ]  # fmt: skip
    if (work / "settles.csv").exists():
        given += ["--settles", str(work / "settles.csv")]
    for setting in settings.MQ_REPORTS_CONF:
        given += ["--conf", setting]
    return given


@contextlib.contextmanager
def _snapshot() -> Iterator[int]:
    """The end offset of a snapshot that is held meanwhile. Raises ``RunFailed`` if it was not."""
    lease_ms = settings.MQ_REPORTS_LIMIT_S * SECOND_MS + _LEASE_MARGIN_MS
    try:
        with blocking_client(MAIN_SHARD) as client:
            taken = client.snapshot(SnapshotRequest(lease_ms=lease_ms))
    except StoreError as exc:
        raise RunFailed(Failure.ENGINE_AWAY, f"the storage engine gave no snapshot: {exc}") from exc
    was_held = False
    try:
        yield taken.end_offset
    finally:
        # On a connection of its own: hours lie between.
        with contextlib.suppress(StoreError), blocking_client(MAIN_SHARD) as client:
            release = SnapshotRelease(snapshot_id=taken.snapshot_id)
            was_held = client.snapshot_release(release).was_held
    if not was_held:
        raise RunFailed(Failure.SNAPSHOT_LOST, "the log was deleted while it was being read")


class _ClaimRenewer:
    """Tells the row that its worker lives, and how far it has come."""

    def __init__(self, run: ReportRun, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._next_ms = 0

    def on_progress(self, progress: Progress) -> None:
        if not renew(self._run, self._clock.now_ms(), progress):
            raise RunSuperseded

    def renew_if_due(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + RENEW_MS
        return renew(self._run, self._clock.now_ms(), None)
