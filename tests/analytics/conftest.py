"""One Spark session for all tests of analytics; it takes some seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from analytics.session import start_session
from tests.analytics.small import SMALL
from tests.storage_engine.faults.machine import need_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# A busy machine takes a minute to start Java; the first test waits for that.
_TIMEOUT_S: Final = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
            # One process runs them all, so that Java is started once.
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """On two cores of this machine."""
    need_java()
    place = str(tmp_path_factory.mktemp("spark"))
    settings = {
        "spark.sql.warehouse.dir": place,
        "spark.local.dir": place,
        **SMALL,
    }
    session = start_session("local[2]", driver_memory="512m", conf=settings)
    yield session
    session.stop()
