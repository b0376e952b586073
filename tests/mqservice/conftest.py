"""The database, people, a real engine, and clients for the tests of the Django part."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import translation
from psycopg.conninfo import make_conninfo
from pytest_django import Settings

from mqservice.accounts import join_tenant
from mqservice.console.static_files import StaticFilesMiddleware
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import GroupRef, StoreClient, TopicRef, blocking_client
from storage_engine.records.topic_names import is_of_group
from tests.clock import ManualClock
from tests.engine import running_engine
from tests.mqservice.groups.reading import Reader
from tests.mqservice.tasks.desk import Desk, open_desk
from tests.people import People, create_people


@pytest.fixture(autouse=True)
def no_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier tests have tried is forgotten: all come from one address. And no window in which
    attempts are counted ends in the middle of a test.
    """
    cache.clear()
    for throttle in (join_tenant.ACCEPTS, join_tenant.PASSWORDS):
        monkeypatch.setattr(throttle, "_clock", ManualClock())


@pytest.fixture(autouse=True)
def no_language() -> Iterator[None]:
    """Requests leave their language to the thread, which here is that of the next test too."""
    yield
    translation.deactivate()


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Each of Django's test clients makes its own middleware, which would look for all files again:
    a third of the time of many tests.
    """
    find = StaticFilesMiddleware.add_files_from_finders
    found: list[StaticFilesMiddleware] = []

    def find_once(middleware: StaticFilesMiddleware) -> None:
        if not found:
            find(middleware)
            found.append(middleware)
        middleware.files, middleware.directories = found[0].files, found[0].directories

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticFilesMiddleware, "add_files_from_finders", find_once)
        yield


@pytest.fixture
def people(db: None) -> People:
    return create_people()


@pytest.fixture(scope="session")
def engine_socket() -> Iterator[str]:
    """One engine for the whole run."""
    with running_engine() as path:
        yield path


@pytest.fixture
def engine(engine_socket: str, settings: Settings) -> str:
    """The service finds the engine. Without this fixture it finds none.

    It starts as empty as the database: a topic that an earlier test made under the same name
    would else still be there, with that test's queues.
    """
    settings.MQ_ENGINE_SOCKET = engine_socket
    with StoreClient(engine_socket, client_name="tests") as client:
        for group in client.group_list().groups:
            client.group_delete(GroupRef(group=group.group))
        for topic in client.topic_list().topics:
            if not is_of_group(topic.topic) and "%" in topic.topic:
                client.topic_delete(TopicRef(topic=topic.topic))
    return engine_socket


@pytest.fixture
def store(engine: str) -> Iterator[StoreClient]:
    """A client of the engine."""
    with blocking_client(MAIN_SHARD) as client:
        yield client


@pytest.fixture
def test_dsn(transactional_db: None) -> str:
    """The database of the tests, for those who bring a connection of their own."""
    parameters = connection.get_connection_params()
    kept = ("host", "port", "user", "password", "dbname")
    return make_conninfo("", **{name: parameters[name] for name in kept})


@pytest.fixture
def api() -> Callable[[str], Client]:
    """A client that sends the given API key."""
    return lambda key: Client(headers={"authorization": f"Bearer {key}"})


@pytest.fixture
def acme(people: People, api: Callable[[str], Client]) -> Client:
    """A client with a key for namespace acme."""
    return api(people.acme_key)


@pytest.fixture
def reader(acme: Client, store: StoreClient) -> Reader:
    """Five messages in queue 0 and two in queue 1, of which the group has settled one."""
    reader = Reader.of_two_queues(acme, store)
    reader.ack(reader.receive(1))
    return reader


@pytest.fixture
def admin(people: People, api: Callable[[str], Client]) -> Client:
    """A client with a key for all of tenant acme."""
    return api(people.acme_admin_key)


@pytest.fixture
def alice(people: People, client: Client) -> Client:
    """The browser of acme's owner."""
    client.force_login(people.alice)
    return client


@pytest.fixture
def bob(people: People) -> Client:
    """The browser of a viewer."""
    client = Client()
    client.force_login(people.bob)
    return client


@pytest.fixture
def desk(people: People, engine: str) -> Desk:
    """Tasks between topics and groups of the engine that all tests share."""
    return open_desk(people.acme)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_server: str) -> None:
    """pytest-django asks for this before it makes the test database."""
