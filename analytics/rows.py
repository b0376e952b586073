"""Rows of reports as lines of JSON, which can be read without Spark.

    out/<job> ──▶ [write_rows] ──▶ {"report", "date", "tenant", "rows_left_out", "row"}, one a line

Lines of one report, date and tenant stand together, in the order of the report's columns. Of each
at most ``ROWS_MAX`` are written; the first line says how many are not. Rows without a tenant
(damaged places of the log) are nobody's, and left out.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TextIO

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_MAX: Final = 5_000


def write_rows(
    file: TextIO, report: str, frame: DataFrame, dates: list[dt.date], *, rows_max: int = ROWS_MAX
) -> int:
    """How many were written. Reads the report once; memory is that of one part of it."""
    count = 0
    for line in _lines(report, frame, dates, rows_max):
        file.write(line + "\n")
        count += 1
    return count


def _lines(report: str, frame: DataFrame, dates: list[dt.date], rows_max: int) -> Iterator[str]:
    if "tenant" not in frame.columns:  # no day has any rows
        return
    names = [name for name in frame.columns if name not in ("date", "tenant")]
    sortable = [name for name, kind in frame.dtypes if name in names and "<" not in kind]
    whole = Window.partitionBy("date", "tenant")
    rows = (
        frame.where(F.col("tenant").isNotNull())
        .withColumns(
            {
                "_rank": F.row_number().over(whole.orderBy(*sortable)),
                "_count": F.count("*").over(whole),
                "_row": F.to_json(F.struct(*names), {"ignoreNullFields": "false"}),
            }
        )
        .where(F.col("_rank") <= rows_max)
        .select("date", "tenant", "_rank", "_count", "_row")
        .orderBy("date", "tenant", "_rank")
    )
    for row in rows.toLocalIterator():
        assert row["date"] in dates
        found = {
            "report": report,
            "date": row["date"].isoformat(),
            "tenant": row["tenant"],
            "rows_left_out": max(0, row["_count"] - rows_max),
            "row": json.loads(row["_row"]),
        }
        yield json.dumps(found, ensure_ascii=False)
