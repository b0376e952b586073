"""The only place that starts Spark, or reports why it cannot.

    [spark_problem] ─▶ "" or what is missing        [start_session] ──▶ SparkSession

The session's time zone is UTC; days of another zone are made by the jobs.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from analytics.java import java_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT: Final = Path(__file__).resolve().parent.parent


def spark_problem() -> str:
    """What is missing for analytics, for people to read; empty when all is there."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as exc:
        return f"the Python package {exc.name} is not installed; make analytics installs it"
    return java_problem()


def start_session(
    master: str, *, driver_memory: str = "1g", conf: dict[str, str] | None = None
) -> SparkSession:
    """A session with the log's source; the one that runs already, if there is one.

    ``conf`` comes last and wins: credentials of an object store, memory of executors, and so on.
    """
    from pyspark.sql import SparkSession

    from analytics.source import LogSource

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # A property that is there twice has the value of the last, as in Java's map.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        # A tenant named 007 is a name, no number.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        # Percentiles of one group may hold 1.6 MiB, which Spark does not count. With more groups
        # than this at once it sorts, and makes those of one after the other.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "8",
        # Messages that were spread for one join need not be spread again for a narrower one.
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
    }
    if master.startswith("local"):
        # Else Spark looks up the machine's own name, which a container may not know.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "8",
            # Executors on other machines have the packages installed; here they find ours.
            "spark.executorEnv.PYTHONPATH": str(_ROOT),
        }
    builder = SparkSession.builder.appName("mqservice analytics").master(master)
    for name, value in (settings | (conf or {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(LogSource)
    return spark
