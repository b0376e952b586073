"""One run from its claim to its rows: snapshot, export, Spark, load.

    claim ──▶ lag, settles ──▶ snapshot of the log ──▶ Spark ──▶ still held? ──▶ rows ──▶ done
    several shards:       ──▶ copies out of their bucket ──▶ Spark ──▶ rows ──▶ done, or named

Whatever fails leaves the results of before. The snapshot keeps retention from the log meanwhile; if
the disk took it away, files may be missing from what was read, and the run is repeated.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import tempfile
from collections.abc import Iterator, Sequence
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
from mqservice.reports.programs import Failure, RunFailed, RunSuperseded
from mqservice.reports.results import load_rows
from mqservice.reports.runs import claim, fail, finish, renew
from mqservice.reports.settle_export import are_marks_available, write_settles
from mqservice.reports.shard_copies import LeftOut, copy_shards
from mqservice.reports.spark import Outcome, Progress, run_spark
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
    settings.MQ_DATA_DIR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="report-", dir=settings.MQ_DATA_DIR) as directory:
        work = Path(directory)
        plan = Plan(dt.time(), run.zone)
        from_ms, to_ms = plan.day_start_ms(run.from_date), plan.day_start_ms(run.to_date)
        write_lag_samples(work / "lag.csv", from_ms, to_ms)
        # Without marks the report of before stays, which had them.
        if are_marks_available(from_ms, clock.now_ms()):
            write_settles(work / "settles.csv", from_ms, to_ms)
        shards = shard_names()
        make = _from_store if len(shards) == 1 else _from_copies
        make(run, work, clock)


def _from_store(run: ReportRun, work: Path, clock: Clock) -> None:
    """Of the one engine, whose files are here."""
    heart = _ClaimRenewer(run, clock)
    with _snapshot() as end_offset:
        source = ["--store", str(settings.MQ_ENGINE_STORE_DIR), "--end-offset", str(end_offset)]
        outcome = _spark(run, work, source, heart, settings.MQ_REPORTS_LIMIT_S)
    _load(run, work / "rows.jsonl", outcome, clock.now_ms())


def _from_copies(run: ReportRun, work: Path, clock: Clock) -> None:
    """Of all shards. What is left out of one is made up for by the next attempt, if it can be."""
    heart = _ClaimRenewer(run, clock)
    limit_s = settings.MQ_REPORTS_LIMIT_S
    began_ms = clock.monotonic_ms()
    plan = Plan(dt.time(), run.zone)
    first = min(plan.utc_dates(run.from_date))
    file, left_out = copy_shards(
        shard_names(),
        work,
        from_ms=Plan(dt.time(), "UTC").day_start_ms(first),
        to_ms=plan.day_start_ms(run.to_date),
        limit_s=limit_s,
        clock=clock,
        still_wanted=heart.renew_if_due,
    )
    left_s = limit_s - (clock.monotonic_ms() - began_ms) // SECOND_MS
    outcome = _spark(run, work, ["--shards", str(file)], heart, max(left_s, 1))
    _load(run, work / "rows.jsonl", outcome, clock.now_ms(), left_out)


def _spark(
    run: ReportRun, work: Path, source: Sequence[str], heart: _ClaimRenewer, limit_s: int
) -> Outcome:
    return run_spark(
        [*source, *_arguments(run, work)],
        limit_s=limit_s,
        clock=heart.clock,
        tell=heart.on_progress,
        still_wanted=heart.renew_if_due,
    )


def _load(
    run: ReportRun,
    path: Path,
    outcome: Outcome,
    now_ms: int,
    left_out: Sequence[LeftOut] = (),
) -> None:
    """Raises ``RunFailed`` once all is loaded that there is: shards were left out."""
    with transaction.atomic():
        unread = [each.shard for each in left_out if each.is_unread]
        row_count = load_rows(path, run, outcome, now_ms, left_out=unread)
        is_ours = renew(run, now_ms, None) if left_out else finish(run, outcome, row_count)
        if not is_ours:
            raise RunSuperseded
        queue_emails(run, now_ms)
    log.info(
        "Reports written",
        extra={"action": "reports_written", "run": run.public_id, "rows": outcome.report_rows},
    )
    if left_out:
        names = ", ".join(each.shard for each in left_out)
        raise RunFailed(
            Failure.SHARDS_LEFT_OUT,
            f"namespaces in these shards have no report of these days, or not all of it: {names}",
            "; ".join(f"{each.shard}: {each.reason}" for each in left_out),
        )


def _arguments(run: ReportRun, work: Path) -> list[str]:
    given = [
        "--lake", settings.MQ_REPORTS_LAKE,
        "--out", settings.MQ_REPORTS_OUT, "--from", run.from_date.isoformat(),
        "--to", run.to_date.isoformat(), "--zone", run.zone,
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
        self.clock = clock
        self._next_ms = 0

    def on_progress(self, progress: Progress) -> None:
        if not renew(self._run, self.clock.now_ms(), progress):
            raise RunSuperseded

    def renew_if_due(self) -> bool:
        now_ms = self.clock.monotonic_ms()
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + RENEW_MS
        return renew(self._run, self.clock.now_ms(), None)
