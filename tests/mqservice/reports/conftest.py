"""Runs that begin now, and a place for their files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from mqservice.reports.models import ReportRun, Trigger
from tests.analytics.small import SMALL
from tests.clock import ManualClock

DATE = dt.date(2026, 1, 5)
DAY = dt.timedelta(days=1)
MakeRun = Callable[..., ReportRun]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_run(db: None, clock: ManualClock) -> MakeRun:
    """Nights from DATE on, one a call, due at once."""

    def make(date: dt.date = DATE, **values: object) -> ReportRun:
        given = {
            "trigger": Trigger.NIGHTLY.value, "from_date": date, "to_date": date + DAY,
            "zone": "UTC", "created_by": "beat", "next_try_ms": clock.now_ms(), **values,
        }  # fmt: skip
        return ReportRun.objects.create(**given)

    return make


@pytest.fixture
def spark_settings(settings: Settings, tmp_path: Path) -> Settings:
    """Files beside nothing else, and a small Spark."""
    settings.MQ_DATA_DIR = tmp_path / "data"
    settings.MQ_REPORTS_LAKE = str(tmp_path / "lake")
    settings.MQ_REPORTS_OUT = str(tmp_path / "out")
    settings.MQ_REPORTS_MASTER = "local[2]"
    settings.MQ_REPORTS_MEMORY = "512m"
    settings.MQ_REPORTS_CONF = [f"{name}={value}" for name, value in SMALL.items()]
    return settings


@pytest.fixture
def report_settings(spark_settings: Settings, engine: str) -> Settings:
    """The shared engine's own store."""
    spark_settings.MQ_ENGINE_STORE_DIR = Path(engine).parent / "store"
    return spark_settings
