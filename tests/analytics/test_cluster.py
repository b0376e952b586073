"""The whole run on a real cluster, as a process of its own: by the master's address alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.analytics.clusters import WORKERS, standalone_cluster
from tests.analytics.stores import LONG, at, make_topics, open_store, put_orders
from tests.storage_engine.faults.machine import need_java

START_MS = at("2026-01-05T22:30+00:00")
CONF = (
    "spark.executor.memory=512m", "spark.executor.cores=1", "spark.sql.shuffle.partitions=2",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled=false", "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
    # Both workers, or the run does not begin.
    "spark.scheduler.minRegisteredResourcesRatio=1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime=60s", "spark.cores.max=2",
)  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.torture
async def test_a_run_on_two_workers_counts_what_the_engine_counted(tmp_path: Path) -> None:
    need_java()
    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await put_orders(store, 150)  # several segments, hence several tasks
        await put_orders(store, 20, topic=LONG)
        await store.close()
    with standalone_cluster(tmp_path) as master:
        done = run(tmp_path, master)
        assert done.returncode == 0, done.stderr[-3_000:]
        assert len(executors(tmp_path)) == WORKERS
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["records"] == {"2026-01-05": 170}
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert {(row["tenant"], row["row"]["message_count"]) for row in rows} == {
        ("acme", 150), ("globex", 20),
    }  # fmt: skip


def run(tmp_path: Path, master: str) -> Any:
    """Any: a completed process."""
    conf = [part for setting in CONF for part in ("--conf", setting)]
    return subprocess.run(
        [
            sys.executable, "-m", "analytics", "run", "--store", str(tmp_path / "s"),
            "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "out"),
            "--from", "2026-01-05", "--to", "2026-01-06", "--jobs", "usage_daily",
            "--rows", str(tmp_path / "rows"), "--master", master, "--driver-memory", "512m", *conf,
        ],
        capture_output=True, text=True, check=False, timeout=800,
    )  # fmt: skip


def executors(tmp_path: Path) -> set[str]:
    """Workers that had an executor which ran tasks."""
    logs = tmp_path.glob("worker*/app-*/*/stderr")
    return {log.parts[-4] for log in logs if "Finished task" in log.read_text("utf-8", "replace")}
