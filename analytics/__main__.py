"""``python -m analytics run``: ingests a range of dates into the lake and writes every report.

Exit codes: 0 done, 1 a job failed, 2 arguments that make no sense, 3 the store cannot be read,
4 no Java or no PySpark here. The last line of standard output is JSON and says what was done, with
``incomplete_days`` of each shard; with ``--progress`` there is one before each step: ``{"step",
"done", "total"}``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from analytics.session import spark_problem, start_session

EXIT_FAILED: Final = 1
EXIT_ARGUMENTS: Final = 2
EXIT_STORE: Final = 3
EXIT_NO_SPARK: Final = 4


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    reason = spark_problem()
    if reason:
        print(f"analytics is off: {reason}", file=sys.stderr)
        return EXIT_NO_SPARK
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from analytics.days import Scope
    from analytics.ingest import IngestOptions
    from analytics.report_run import JOBS, ReportRun, run
    from analytics.shards import Source, read_shards
    from analytics.source import StoreError

    jobs = tuple(filter(None, options.jobs.split(",")))
    unknown = [name for name in jobs if name not in JOBS]
    if unknown:
        return _reject(f"unknown jobs {unknown}; the jobs are {', '.join(JOBS)}")
    try:
        scope = Scope(options.from_date, options.to_date, options.zone).check()
        conf = dict(_setting(text) for text in options.conf)
        one = Source(store=options.store, end_offset=options.end_offset)
        sources = read_shards(options.shards) if options.shards else (one,)
    except ValueError as exc:
        return _reject(str(exc))
    what = ReportRun(
        scope=scope,
        lake=options.lake,
        out=options.out,
        sources=sources,
        ingest=IngestOptions(again=options.again, checks_crcs=not options.no_crc),
        jobs=jobs,
        lag_samples=options.lag_samples,
        settles=options.settles,
        rows=options.rows,
    )
    if options.rows:
        open(options.rows, "w").close()  # of an earlier run
    tell = _print_progress if options.progress else _print_nothing
    spark = start_session(options.master, driver_memory=options.driver_memory, conf=conf)
    try:
        outcome = run(spark, what, now_ms=int(time.time() * 1_000), tell=tell)
    except StoreError as exc:
        print(f"cannot read the store: {exc}", file=sys.stderr)
        return EXIT_STORE
    except (PySparkException, ValueError) as exc:
        print(f"a job failed: {exc}", file=sys.stderr)
        return EXIT_FAILED
    except (Py4JError, ConnectionError) as exc:
        print(
            f"Spark's JVM exited: {exc}. The usual cause is too little memory; it has "
            f"{options.driver_memory} (--driver-memory, MQ_REPORTS_MEMORY)",
            file=sys.stderr,
        )
        return EXIT_FAILED
    finally:
        with contextlib.suppress(Py4JError, ConnectionError):  # it is gone already
            spark.stop()
    rows = {name: sum(day["row_count"] for day in days) for name, days in outcome.reports.items()}
    records: Counter[str] = Counter()
    incomplete: dict[str, list[str]] = {}
    for shard, days in outcome.ingested.items():
        records.update({day["date"]: day["row_count"] for day in days})
        incomplete[shard] = [day["date"] for day in days if not day["is_complete"]]
    done = {"records": records, "incomplete_days": incomplete, "report_rows": rows}
    print(json.dumps(done))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analytics")
    commands = parser.add_subparsers(required=True, metavar="run")
    command = commands.add_parser("run", help="ingest days into the lake and write their reports")
    add = command.add_argument
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--store", help="directory of the engine's store")
    source.add_argument("--shards", help="file that names a copy of each shard (analytics.shards)")
    add("--lake", required=True, help="lake for messages: a path, s3a://… or hdfs://…")
    add("--out", required=True, help="directory for reports, in the same forms")
    add("--from", dest="from_date", required=True, type=dt.date.fromisoformat, help="2026-01-31")
    add(
        "--to",
        dest="to_date",
        required=True,
        type=dt.date.fromisoformat,
        help="day after the last day",
    )
    add("--zone", default="UTC", help="time zone of the days, such as Europe/Berlin")
    add("--end-offset", type=int, help="end of a snapshot that is held for this run")
    add("--jobs", default="", help="names, separated by commas; by default all")
    add("--lag-samples", default="", help="export of consumer offsets, .csv or Parquet")
    add("--settles", default="", help="export of settles, .csv or Parquet")
    add("--rows", default="", help="file for the rows of all reports, as lines of JSON")
    add("--progress", action="store_true", help="print a line of JSON before each step")
    add(
        "--again", action="store_true", help="read days again that are already complete in the lake"
    )
    add("--no-crc", action="store_true", help="do not check CRCs, which needs to read every body")
    add("--master", default="local[*]", help="master of Spark: local[2], spark://…, yarn, k8s://…")
    add("--driver-memory", default="1g")
    add("--conf", action="append", default=[], metavar="NAME=VALUE", help="any setting of Spark")
    return parser


def _print_progress(step: str, done: int, total: int) -> None:
    print(json.dumps({"step": step, "done": done, "total": total}), flush=True)


def _print_nothing(step: str, done: int, total: int) -> None:
    """Nobody asked."""


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError(f"--conf {text!r} must be NAME=VALUE")
    return name, value


def _reject(reason: str) -> int:
    print(reason, file=sys.stderr)
    return EXIT_ARGUMENTS


if __name__ == "__main__":
    sys.exit(main())
