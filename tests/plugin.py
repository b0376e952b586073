"""Prepares the test process before Django reads its settings; loaded by ``-p tests.plugin``.

    free ports ──▶ DATABASE_URL, VALKEY_URL ──▶ settings          servers start when a fixture asks

The servers are the embedded ones, run by the supervisor's own code with settings that trade safety
for speed; PostgreSQL starts with a copy of the prepared cluster. Coroutine tests run by
``async_to_sync``, which keeps the ORM on the thread that holds the test's transaction; with a loop
of its own, rows would survive the test. How long an example of a property takes says more of the
machine than of the code.
"""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.nodeid import coerce_node_id
from asgiref.sync import async_to_sync
from hypothesis import HealthCheck, settings

from tests.disk_room import why_no_room
from tests.prepared_cluster import begin_to_make, shared_directory
from tests.servers import TestServers
from tests.sizes import IS_TORTURE

settings.register_profile(
    "any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

shared_directory()  # one for all processes of pytest-xdist
_making: list[subprocess.Popen[bytes]] = []  # waited for at the end
SERVERS = TestServers()
os.environ.update(SERVERS.environment())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Ends the run where its disk is too full, and prepares for several processes what all of them
    ask for. Once: not in the processes of pytest-xdist.
    """
    if hasattr(session.config, "workerinput"):
        return
    reason = why_no_room(Path(tempfile.gettempdir()))
    if reason is not None:
        pytest.exit(reason, returncode=pytest.ExitCode.USAGE_ERROR)
    if session.config.getoption("numprocesses", None):
        _making.append(begin_to_make())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs ``async def`` tests; leaves all others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    async_to_sync(pyfuncitem.obj)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays until the end: to look through it for garbage again and
    again, as the tests make more, would take a tenth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """One process runs all tests of a module that share what is made for the module: a browser, a
    server, a large store. It would else be made once more for each process. One runs all tests of
    the whole service, too, which take a quarter of ``make test``. Of the tests that only ``make
    torture`` runs they are most, and each process has a service of its own.
    """
    if item.get_closest_marker("xdist_group") is not None:
        return
    is_in_torture = IS_TORTURE or item.get_closest_marker("torture") is not None
    if _asks_the_service(item) and not is_in_torture:
        item.add_marker(pytest.mark.xdist_group("service"))
    elif _shares_with_its_module(item):
        item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}.{item.path.stem}"))


def _asks_the_service(item: pytest.Item) -> bool:
    """Whether it is a test of ``one_service``: nothing of its folder stands in its place."""
    if not isinstance(item, pytest.Function):
        return False
    if hasattr(item, "callspec") and item.callspec.params.get("service") == "fake":
        return False
    definitions = item._fixtureinfo.name2fixturedefs.get("service", ())
    return [each.scope for each in definitions[-1:]] == ["session"]


def _shares_with_its_module(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return any(definitions[-1].scope == "module" for definitions in fixtures)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of the whole service first: they wait for each other. Of the rest long ones first, so
    that no core is idle at the end.
    """
    items.sort(key=_turn)
    for item in items:
        # pytest-xdist 3.8 writes groups where pytest 9.2 looks no more: without this there is no
        # group, and each process starts a Spark, a network and servers of its own.
        with_group = vars(item).get("_nodeid")
        if with_group is not None:
            item._id = coerce_node_id(with_group)


def _turn(item: pytest.Item) -> tuple[bool, float]:
    marker = item.get_closest_marker("timeout")
    timeout_s = marker.args[0] if marker is not None else 0.0
    return not _asks_the_service(item), -timeout_s


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """The service ends with the last of its tests: its ten processes take a tenth of a core from
    all that come after.
    """
    try:
        return (yield)
    finally:
        if _asks_the_service(item) and not (nextitem and _asks_the_service(nextitem)):
            _end_the_service(item)


def _end_the_service(item: pytest.Item) -> None:
    assert isinstance(item, pytest.Function)
    for each in item.session._fixturemanager.getfixturedefs("one_service", item) or ():
        each.finish(item._request)  # type: ignore[arg-type]  # only its node is asked for


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    SERVERS.close()
    for process in _making:
        process.wait()


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
