"""A server with PostgreSQL and an engine behind it, and boto3 before it, in both protocols."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config

from mqservice.accounts.models import Namespace, Role
from mqservice.accounts.scopes import Grant, Scope
from mqservice.accounts.services import create_api_key
from mqservice.accounts.settings import KeyKind
from mqservice.caches import Caches, listen
from mqservice.store import AsyncStoreClient
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.sqs.query_model import query_models
from tests.people import People
from tests.sizes import in_torture

REGION = "eu-central-1"
Sqs = Any  # Any: a client of boto3, whose methods are made at run time
JSON, QUERY = "json", "query"


class Desk:
    """A running server, its access keys and clients of it."""

    def __init__(self, server: Server, people: People) -> None:
        self.server = server
        self.people = people
        server.context.caches.routes = Caches().routes

    def key(
        self,
        namespace: Namespace | None = None,
        *,
        scopes: frozenset[Scope] = frozenset(Scope),
        grants: tuple[Grant, ...] = (),
        is_of_namespace: bool = True,
        role: Role = Role.DEVELOPER,
        expires_at: datetime | None = None,
    ) -> tuple[str, str]:
        """Id and secret of a new access key; of namespace acme unless another is given."""
        namespace = namespace or self.people.acme
        row, secret = create_api_key(
            namespace.tenant,
            name="program",
            scopes=[*scopes, *(grant.text for grant in grants)],
            role=role,
            namespace=namespace if is_of_namespace else None,
            expires_at=expires_at,
            kind=KeyKind.ACCESS,
        )
        return row.public_id, secret

    def client(self, protocol: str = JSON, key: tuple[str, str] | None = None) -> Sqs:
        """boto3 as it is, with an endpoint URL; it repeats nothing."""
        key_id, secret = key or self.key()
        return _session(protocol).client(
            "sqs",
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            endpoint_url=f"{self.server.url}/sqs",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=30),
        )


@functools.cache
def _session(protocol: str) -> boto3.Session:
    """One for all clients: it takes a third of a second to read what it knows of AWS."""
    session = boto3.Session(region_name=REGION)
    if protocol == QUERY:
        loader = session._session.get_component("data_loader")
        loader.search_paths.insert(0, str(query_models()))
    return session


@pytest.fixture
def desk(transactional_db: None, people: People, engine: str, test_dsn: str) -> Iterator[Desk]:
    store = AsyncStoreClient(engine, client_name="test")
    with serving(store, fresh_ms=30_000) as server:
        found = Desk(server, people)
        server.call(store.start)
        wait_until(lambda: store.is_connected)
        listening = _start(server, lambda: listen(server.context.caches, dsn=test_dsn))
        yield found
        listening.cancel()


def _start(server: Server, work: Callable[[], Any]) -> Future[Any]:  # Any: coroutines
    assert server._loop is not None
    return asyncio.run_coroutine_threadsafe(work(), server._loop)


@pytest.fixture(params=[JSON, *in_torture(QUERY)])
def sqs(desk: Desk, request: pytest.FixtureRequest) -> Sqs:
    """A client with a key for namespace acme; ``test_messages`` has both protocols each time."""
    return desk.client(request.param)


@pytest.fixture
def queue(sqs: Sqs) -> str:
    """The URL of a standard queue."""
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])


@pytest.fixture
def fifo(sqs: Sqs) -> str:
    """The URL of a FIFO queue that finds duplicates by content."""
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    created = sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)
    return str(created["QueueUrl"])
