"""``python -m bench.scan STORE COLUMNS``: read a store once by Spark on two cores; how fast.

The last line of standard output is JSON: ``records``, ``bytes`` (of bodies), ``seconds``. Starting
Spark and a first, small scan are not counted.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from pyspark.sql import functions as F

from analytics.session import start_session
from analytics.source import FORMAT

MASTER: Final = "local[2]"


def main(store: str, columns: str) -> None:
    spark = start_session(MASTER)
    try:
        frame = spark.read.format(FORMAT).option("columns", columns).load(store)
        frame.limit(1_000).count()
        names = columns.split(",")
        figures = [F.count("*").alias("records")]
        for name in names:
            value = F.length(name) if name in ("topic", "body") else F.col(name)
            # So that each column is looked at; the sum of fifty million times is no long.
            figures.append((F.sum if name == "body" else F.max)(value).alias(name))
        began = time.perf_counter()
        (row,) = frame.agg(*figures).collect()
        seconds = time.perf_counter() - began
    finally:
        spark.stop()
    body_bytes = row["body"] if "body" in names else 0
    print(json.dumps({"records": row["records"], "bytes": body_bytes, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
