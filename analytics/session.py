"""The only place that starts Spark; and says first why it cannot.

    [why_no_spark] ──▶ "" or what is missing        [start_session] ──▶ SparkSession

The session's time zone is UTC; days of another zone are made by the jobs.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN: Final = 17
_ROOT: Final = Path(__file__).resolve().parent.parent
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_WAIT_S: Final = 20
_HINT: Final = "on Debian: apt-get install openjdk-17-jre-headless"


def why_no_spark() -> str:
    """What is missing for analytics, for people to read; empty when all is there."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as exc:
        return f"the Python package {exc.name} is not installed; make analytics installs it"
    java = find_java()
    if java is None:
        return f"Java {JAVA_VERSION_MIN} or newer is needed and there is no java; {_HINT}"
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=_JAVA_WAIT_S
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return f"{java} cannot be run: {exc}"
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        version = found[1] if found else "of unknown version"
        return f"Java {JAVA_VERSION_MIN} or newer is needed, {java} is {version}; {_HINT}"
    return ""


def find_java() -> str | None:
    """As Spark looks for it: ``JAVA_HOME``, else the path."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


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
    }
    if master.startswith("local"):
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
