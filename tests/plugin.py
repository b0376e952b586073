"""Prepares the test process before Django reads its settings; loaded by ``-p tests.plugin``.

    free ports ──▶ DATABASE_URL, VALKEY_URL ──▶ settings          servers start when a fixture asks

The servers are the embedded ones, run by the supervisor's own code with settings that trade safety
for speed. Coroutine tests run by ``async_to_sync``, which keeps the ORM on the thread that holds
the test's transaction; with a loop of its own, rows would survive the test. How long an example of
a property takes says more of the machine than of the code.
"""

from __future__ import annotations

import inspect
import os

import pytest
from asgiref.sync import async_to_sync
from hypothesis import HealthCheck, settings

from tests.servers import TestServers

settings.register_profile(
    "any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

SERVERS = TestServers()
os.environ.update(SERVERS.environment())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs ``async def`` tests; leaves all others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    async_to_sync(pyfuncitem.obj)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that no core is idle at the end; those of the whole service last, for
    its ten processes take a tenth of a core from all tests that come after.
    """
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[bool, float]:
    marker = item.get_closest_marker("timeout")
    timeout_s = marker.args[0] if marker is not None else 0.0
    return "service" in getattr(item, "fixturenames", ()), -timeout_s


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    SERVERS.close()


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """URL of a running PostgreSQL; ``django_db`` tests get it by themselves."""
    return SERVERS.start_postgres()


@pytest.fixture(scope="session")
def valkey_server() -> str:
    """URL of a running Valkey, the one that ``VALKEY_URL`` names."""
    return SERVERS.start_valkey()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: str) -> None:
    """pytest-django asks for this before it makes the test database."""
