"""What Spark reads of a store's log, as a batch and as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from storage_engine.reader import find_extent
from tests.analytics.stores import HOUR_MS, LONG, ORDERS, at, make_topics, open_store, put_orders
from tests.storage_engine.doubles import copy_store
from tests.storage_engine.independent_reader import read_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_MS = at("2026-01-05T10:00+00:00")


async def make_store(store_dir: Path) -> None:
    """Three hours with 40 orders each, and 40 of the other topic in the second."""
    async with open_store(store_dir, START_MS) as store:
        make_topics(store)
        for hour in range(3):
            await put_orders(store, 40)
            if hour == 1:
                await put_orders(store, 40, topic=LONG)
            store.clock.advance(HOUR_MS)


def log_of(spark: SparkSession, store_dir: Path, **options: str) -> DataFrame:
    return spark.read.format("mqlog").options(**options).load(str(store_dir))


async def test_rows_are_what_an_independent_reader_finds(
    spark: SparkSession, tmp_path: Path
) -> None:
    await make_store(tmp_path)
    whole = log_of(spark, tmp_path)
    assert "body" not in whole.columns
    names = "physical_offset", "topic", "queue_offset", "store_ms", "record_bytes", "body_bytes"

    rows = log_of(spark, tmp_path, columns=",".join(names)).collect()

    expected = [
        (each.physical_offset, each.topic, each.queue_offset, each.store_timestamp_ms,
         each.record_bytes, each.body_bytes)
        for each in read_log(tmp_path)
    ]  # fmt: skip
    assert sorted(map(tuple, rows)) == expected
    assert len(expected) == 160


async def test_bodies_are_read_when_they_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    await make_store(tmp_path)

    rows = log_of(spark, tmp_path, columns="body,queue_offset").collect()

    assert sorted({bytes(row.body) for row in rows}) == sorted({b"order %d" % n for n in range(40)})


async def test_time_and_topic_leave_out_rows_and_segments(
    spark: SparkSession, tmp_path: Path
) -> None:
    await make_store(tmp_path)
    second = {"fromMs": str(START_MS + HOUR_MS), "toMs": str(START_MS + 2 * HOUR_MS)}

    assert log_of(spark, tmp_path, topics=f"acme%none, {LONG}", **second).count() == 40
    filtered = log_of(spark, tmp_path, **second)
    assert filtered.groupBy("topic").count().collect() == [(ORDERS, 40), (LONG, 40)]
    assert filtered.rdd.getNumPartitions() < len(find_extent(tmp_path).segments)


async def test_a_time_in_which_no_segment_has_anything_is_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    await make_store(tmp_path)
    before = {"fromMs": "0", "toMs": str(START_MS - HOUR_MS)}

    assert log_of(spark, tmp_path, **before).count() == 0


async def test_a_frame_that_was_filtered_once_has_all_its_rows_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    await make_store(tmp_path)
    whole = log_of(spark, tmp_path)

    assert whole.where(F.col("topic") == LONG).count() == 40
    assert whole.count() == 160


async def test_a_tail_is_read_only_when_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await put_orders(store, 7)
        await store.store.checkpoint()
        await put_orders(store, 5)
        copy_store(tmp_path / "s", tmp_path / "killed")

    assert log_of(spark, tmp_path / "killed").count() == 7
    assert log_of(spark, tmp_path / "killed", withTail="true").count() == 12


@pytest.mark.torture
async def test_a_stream_gives_every_record_once_over_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    def run_stream() -> list[int]:
        stream = spark.readStream.format("mqlog").load(str(tmp_path / "s"))
        query = (
            stream.select("physical_offset")
            .writeStream.option("checkpointLocation", str(tmp_path / "progress"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "copied"), format="parquet")
        )
        query.awaitTermination()
        return sorted(row[0] for row in spark.read.parquet(str(tmp_path / "copied")).collect())

    async with open_store(tmp_path / "s", START_MS) as store:
        make_topics(store)
        await put_orders(store, 70)
    assert len(run_stream()) == 70
    async with open_store(tmp_path / "s", START_MS + HOUR_MS) as store:
        await put_orders(store, 50)
    assert run_stream() == [each.physical_offset for each in read_log(tmp_path / "s")]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"columns": "topic,nonsense"}, "nonsense"),
        ({"endOffset": "-1"}, "endOffset"),
        ({"endOffset": "99999999999"}, "should go up to"),
        ({"checkCrcs": "yes"}, "checkCrcs"),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], reason: str
) -> None:
    async with open_store(tmp_path, START_MS) as store:
        make_topics(store)
        await put_orders(store, 1)
    with pytest.raises(PySparkException, match=reason):
        log_of(spark, tmp_path, **options).count()


def test_a_directory_that_is_no_store_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="is not a store"):
        log_of(spark, tmp_path).count()
