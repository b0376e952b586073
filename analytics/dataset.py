"""A table in Parquet whose days are replaced as a whole or not at all; local, HDFS or an object
store.

    root/_manifests/<date>/<number>.json        the highest number is the day as it is
    root/date=<date>/version=<number>-<random>/…parquet

A new version is written aside; the day changes when its manifest gets its name. A job that is
killed before that leaves the old day and some files that nobody names, which the next replacement
of the day deletes. Readers ask the manifests, never the directories. A version stays
until the replacement after its own, for those who are reading it just now. One writer at a time.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_MANIFESTS: Final = "_manifests"
_DIGITS: Final = 8
_FILES_MAX: Final = 64  # of one day and partition


class Dataset:
    """One table. ``partition_columns`` are directories below the day's; without a ``schema`` rows
    are what their files say.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        schema: StructType | None,
        partition_columns: tuple[str, ...] = (),
    ) -> None:
        self._spark = spark
        self._root = root.rstrip("/")
        self._schema = schema
        self._partition_columns = partition_columns
        jvm: Any = spark._jvm  # Any: py4j makes the classes up
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        conf = spark._jsc.hadoopConfiguration()
        self._files: Any = self._path(self._root).getFileSystem(conf)

    def facts(self, date: dt.date) -> dict[str, Any] | None:
        """What the day's manifest says; None when there is no such day. Any: JSON."""
        numbers = self._numbers(date)
        return self._read_manifest(date, numbers[-1]) if numbers else None

    def read(self, dates: list[dt.date]) -> DataFrame:
        """The rows of those of the days that are there, each with its ``date``."""
        frames = []
        for date in dates:
            facts = self.facts(date)
            if facts is None or not facts["row_count"]:
                continue
            frame = self._read_version(date, facts["version"])
            frames.append(frame.withColumn("date", F.lit(date)))
        if not frames:
            empty = self._spark.createDataFrame([], self._schema or "date date")
            return empty.withColumn("date", F.lit(None).cast("date"))
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame)
        return whole

    def replace(self, date: dt.date, rows: DataFrame, facts: dict[str, Any]) -> dict[str, Any]:
        """Make ``rows`` the day; its manifest, ``facts`` among it. They may read the old day."""
        numbers = self._numbers(date)
        number = numbers[-1] + 1 if numbers else 1
        version = f"{number:0{_DIGITS}d}-{uuid.uuid4().hex[:8]}"
        self._clean(date, numbers)
        counted = Observation()
        rows = rows.observe(counted, F.count(F.lit(1)).alias("row_count"))
        writer = rows.coalesce(_FILES_MAX).write.mode("errorifexists")
        if self._partition_columns:
            writer = writer.partitionBy(*self._partition_columns)
        writer.parquet(self._version_path(date, version))
        row_count = counted.get["row_count"]
        manifest = {**facts, "date": date.isoformat(), "version": version, "row_count": row_count}
        self._publish(date, number, manifest)
        return manifest

    def _read_version(self, date: dt.date, version: str) -> DataFrame:
        reader = self._spark.read
        if self._schema is not None:
            reader = reader.schema(self._schema)
        return reader.parquet(self._version_path(date, version))

    def _version_path(self, date: dt.date, version: str) -> str:
        return f"{self._root}/date={date}/version={version}"

    def _numbers(self, date: dt.date) -> list[int]:
        """The numbers of the day's manifests, ascending."""
        names = self._names(f"{self._root}/{_MANIFESTS}/{date}")
        stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdigit())

    def _names(self, directory: str) -> list[str]:
        path = self._path(directory)
        if not self._files.exists(path):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(path)]

    def _manifest_path(self, date: dt.date, number: int) -> str:
        return f"{self._root}/{_MANIFESTS}/{date}/{number:0{_DIGITS}d}.json"

    def _read_manifest(self, date: dt.date, number: int) -> dict[str, Any]:
        path = self._path(self._manifest_path(date, number))
        stream = self._files.open(path)
        try:
            length = self._files.getFileStatus(path).getLen()
            content = bytes(stream.readNBytes(length))
        finally:
            stream.close()
        found: dict[str, Any] = json.loads(content)
        return found

    def _publish(self, date: dt.date, number: int, manifest: dict[str, Any]) -> None:
        """The day changes here: a rename to a name that nobody has."""
        target = self._path(self._manifest_path(date, number))
        aside = self._path(f"{target.toString()}.{uuid.uuid4().hex[:8]}.tmp")
        stream = self._files.create(aside, False)
        try:
            stream.write(bytearray(json.dumps(manifest, sort_keys=True).encode()))
        finally:
            stream.close()
        if not self._files.rename(aside, target):
            raise FileExistsError(
                f"{target.toString()} already exists: another job is writing this table"
            )

    def _clean(self, date: dt.date, numbers: list[int]) -> None:
        """Delete what is neither the day as it is nor about to be: old versions, and what jobs that
        died have left.
        """
        kept = {self._read_manifest(date, number)["version"] for number in numbers[-1:]}
        for name in self._names(f"{self._root}/date={date}"):
            if name.removeprefix("version=") not in kept:
                self._files.delete(self._path(f"{self._root}/date={date}/{name}"), True)
        for number in numbers[:-1]:
            self._files.delete(self._path(self._manifest_path(date, number)), False)
