"""The input of jobs: frames that the caller has read."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Tables of ``schemas``, of the days of a scope at least.

    ``history``: dead letters of the days before the scope, as far as they shall count as known.
    ``growth_before``: the report of storage of the day before the scope; None: there is none.
    """

    messages: DataFrame
    history: DataFrame
    lag_samples: DataFrame
    settles: DataFrame
    growth_before: DataFrame | None = None
