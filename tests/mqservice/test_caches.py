"""The caches of the hot path against real rows and real notifications."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NoReturn

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError, connection
from django.utils import timezone
from psycopg.conninfo import make_conninfo

from mqservice.accounts.access import Principal
from mqservice.accounts.models import ApiKey, Member, Namespace, Role, Tenant, User
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key, set_role
from mqservice.caches import Caches, listen
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.api_keys import generate_api_key, parse_api_key
from mqservice.lib.problem import Problem
from mqservice.shards.models import Shard
from mqservice.topics.models import Topic
from tests.clock import ManualClock
from tests.people import bearer, create_people, revoke
from tests.sizes import sized

WAIT_S = 60.0


class WatchedCaches(Caches):
    """Tells the test what was dropped, after it was."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: asyncio.Queue[str] = asyncio.Queue()

    def drop(self, payload: str) -> None:
        super().drop(payload)
        self.dropped.put_nowait(payload)

    async def saw(self, payload: str) -> None:
        """Returns once ``payload`` was dropped."""
        async with asyncio.timeout(WAIT_S):
            while await self.dropped.get() != payload:
                pass


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[WatchedCaches, asyncio.Event]]:
    caches, ready = WatchedCaches(), asyncio.Event()
    task = asyncio.create_task(listen(caches, dsn=dsn_of_tests(), ready=ready))
    try:
        async with asyncio.timeout(WAIT_S):
            await ready.wait()
        yield caches, ready
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def dsn_of_tests() -> str:
    kept = ("host", "port", "user", "password", "dbname")
    parameters = connection.get_connection_params()
    return make_conninfo("", **{name: parameters[name] for name in kept})


async def in_db(change: Callable[[], object]) -> None:
    await sync_to_async(change)()


async def refusal(loading: Awaitable[object]) -> Problem:
    with pytest.raises(Problem) as caught:
        await loading
    return caught.value


async def principal_of(caches: Caches, key: str) -> Principal:
    return await caches.keys.load(bearer(key))


@pytest.mark.django_db
async def test_key_is_loaded_once_and_then_a_dict_hit() -> None:
    people = await sync_to_async(create_people)()
    caches = Caches()
    assert caches.keys.cached(bearer(people.acme_key)) is None
    principal = await principal_of(caches, people.acme_key)
    assert caches.keys.cached(bearer(people.acme_key)) is principal


@pytest.mark.django_db
@pytest.mark.parametrize("header", [b"", b"Bearer x", b"Bearer " + b"a" * 5_000])
async def test_bad_header_is_401(header: bytes) -> None:
    problem = await refusal(Caches().keys.load(header))
    assert (problem.status, problem.code) == (401, "UNAUTHENTICATED")


@pytest.mark.django_db
async def test_unknown_key_is_401_in_the_words_of_any_bad_key() -> None:
    unknown = await refusal(Caches().keys.load(bearer(generate_api_key())))
    malformed = await refusal(Caches().keys.load(b"Bearer x"))
    assert (unknown.status, unknown.detail) == (401, malformed.detail)


@pytest.mark.django_db
async def test_topic_and_group_of_the_own_namespace_are_found() -> None:
    people = await sync_to_async(create_people)()
    await in_db(lambda: Topic.objects.create(namespace=people.acme, name="orders", queue_count=7))
    await in_db(lambda: ConsumerGroup.objects.create(namespace=people.acme, name="billing"))
    caches = Caches()
    principal = await principal_of(caches, people.acme_key)
    assert caches.routes.topic(principal, "acme", "orders") is None
    topic = await caches.routes.load_topic(principal, "-", "orders")
    assert (topic.engine_name, topic.queue_count) == ("acme%orders", 7)
    assert caches.routes.topic(principal, "acme", "orders") is topic
    group = await caches.routes.load_group(principal, "acme", "billing")
    assert (group.engine_name, group.lease_ms) == ("acme%billing", 60_000)
    assert caches.routes.group(principal, "-", "billing") is group
    for load in (caches.routes.load_topic, caches.routes.load_group):
        absent = await refusal(load(principal, "-", "absent"))
        assert absent.detail == "absent does not exist in acme"


@pytest.mark.django_db
async def test_foreign_topic_cannot_be_told_from_an_absent_one() -> None:
    people = await sync_to_async(create_people)()
    await in_db(lambda: Topic.objects.create(namespace=people.rival, name="secret"))
    wide = (
        await sync_to_async(create_api_key)(people.acme.tenant, name="wide", scopes=list(Scope))
    )[1]
    caches = Caches()
    owner = await principal_of(caches, people.rival_key)
    await caches.routes.load_topic(owner, "rival", "secret")  # hot for its owner
    for key in (people.acme_key, wide):
        stranger = await principal_of(caches, key)
        assert caches.routes.topic(stranger, "rival", "secret") is None
        foreign = await refusal(caches.routes.load_topic(stranger, "rival", "secret"))
        absent = await refusal(caches.routes.load_topic(stranger, "nobody", "secret"))
        assert (foreign.status, foreign.code) == (404, "TOPIC_NOT_FOUND")
        assert (absent.status, absent.code) == (foreign.status, foreign.code)
        assert absent.detail == foreign.detail.replace("rival", "nobody")
        assert (await refusal(caches.routes.load_group(stranger, "rival", "g"))).status == 404


@pytest.mark.django_db
async def test_a_namespace_that_no_row_could_name_is_absent() -> None:
    people = await sync_to_async(create_people)()
    wide = await sync_to_async(create_api_key)(people.acme.tenant, name="wide", scopes=list(Scope))
    caches = Caches()
    principal = await principal_of(caches, wide[1])
    topic = await refusal(caches.routes.load_topic(principal, "\0", "orders"))
    group = await refusal(caches.routes.load_group(principal, "\0", "billing"))
    assert [topic.code, group.code] == ["TOPIC_NOT_FOUND", "GROUP_NOT_FOUND"]


@pytest.mark.django_db(transaction=True)
async def test_revoked_key_is_forgotten_by_notification() -> None:
    people = await sync_to_async(create_people)()
    key = parse_api_key(people.acme_key)
    assert key is not None
    async with listening() as (caches, _):
        await principal_of(caches, people.acme_key)
        await in_db(lambda: revoke(people.acme_key))
        await caches.saw(f"key {key.public_id}")
        assert caches.keys.cached(bearer(people.acme_key)) is None
        assert (await refusal(caches.keys.load(bearer(people.acme_key)))).status == 401


@pytest.mark.django_db(transaction=True)
async def test_topic_and_group_changes_are_seen_by_notification() -> None:
    people = await sync_to_async(create_people)()
    tenant_id = people.acme.tenant_id
    async with listening() as (caches, _):
        principal = await principal_of(caches, people.acme_key)
        assert (await refusal(caches.routes.load_topic(principal, "-", "new"))).status == 404
        await in_db(lambda: Topic.objects.create(namespace=people.acme, name="new", queue_count=1))
        await caches.saw(f"topic {tenant_id} acme new")
        assert (await caches.routes.load_topic(principal, "-", "new")).queue_count == 1
        await in_db(lambda: Topic.objects.update(queue_count=2))
        await caches.saw(f"topic {tenant_id} acme new")
        assert (await caches.routes.load_topic(principal, "-", "new")).queue_count == 2
        await in_db(lambda: ConsumerGroup.objects.create(namespace=people.acme, name="g"))
        await caches.saw(f"group {tenant_id} acme g")
        assert (await caches.routes.load_group(principal, "-", "g")).name == "g"


@pytest.mark.django_db(transaction=True)
async def test_noting_the_last_use_of_a_key_forgets_nothing() -> None:
    people = await sync_to_async(create_people)()
    async with listening() as (caches, _):
        await principal_of(caches, people.acme_key)  # writes last_used_at
        await in_db(lambda: ApiKey.objects.update(last_used_at=None))
        await in_db(lambda: Tenant.objects.filter(name="rival").update(name="rival"))
        async with asyncio.timeout(WAIT_S):
            assert await caches.dropped.get() == "all"  # the only one


@pytest.mark.django_db(transaction=True)
async def test_who_signs_out_leaves_or_changes_is_heard_of() -> None:
    people = await sync_to_async(create_people)()
    session = SessionStore()
    await in_db(session.create)
    key = session.session_key or ""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
    async with listening() as (caches, _):
        await in_db(lambda: session.delete(key))
        await caches.saw(f"session {digest}")
        await in_db(lambda: set_role(people.acme.tenant, people.bob, Role.DEVELOPER))
        await caches.saw("people")
        await in_db(lambda: Member.objects.filter(user=people.bob).delete())
        await caches.saw("people")
        await in_db(lambda: User.objects.filter(pk=people.bob.pk).update(is_active=False))
        await caches.saw("people")


@pytest.mark.django_db(transaction=True)
async def test_a_shard_that_answers_elsewhere_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("mqservice.caches.reconnect", told.append)
    await in_db(lambda: Shard.objects.create(name="s2", address="tcp://a:1"))
    async with listening() as (caches, _):
        await in_db(lambda: Shard.objects.update(heartbeat_at=timezone.now(), owner="a"))
        await in_db(lambda: Shard.objects.update(address="tcp://b:1"))
        await caches.saw("shard s2")
        await in_db(Shard.objects.all().delete)
        await caches.saw("shard s2")
    assert told == ["s2", "s2"]


@pytest.mark.django_db(transaction=True)
async def test_lost_listener_comes_back_and_forgets_everything() -> None:
    people = await sync_to_async(create_people)()
    async with listening() as (caches, ready):
        await principal_of(caches, people.acme_key)
        ready.clear()
        await in_db(_end_listeners)
        async with asyncio.timeout(WAIT_S):
            await ready.wait()
        assert caches.keys.cached(bearer(people.acme_key)) is None
        await in_db(lambda: Topic.objects.create(namespace=people.acme, name="new"))
        await caches.saw(f"topic {people.acme.tenant_id} acme new")


@pytest.mark.django_db
async def test_database_that_does_not_answer_is_503_and_nothing_is_let_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(authorization: bytes) -> NoReturn:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr("mqservice.caches.find_principal", refuse)
    problem = await refusal(Caches().keys.load(bearer(generate_api_key())))
    assert (problem.status, problem.code) == (503, "METADATA_UNAVAILABLE")
    assert problem.retryable
    assert problem.stored is False


def test_unknown_notification_forgets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = WatchedCaches()
    cleared: list[bool] = []
    monkeypatch.setattr(caches.keys, "clear", lambda: cleared.append(True))
    for payload in ("", "all", "topic x acme orders", "something else", "key"):
        caches.drop(payload)
    assert len(cleared) == 5


def _end_listeners() -> None:
    with psycopg.connect(dsn_of_tests(), autocommit=True) as admin:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'mqservice listen' AND datname = current_database()"
        ).fetchall()
    assert ended


@pytest.mark.django_db(transaction=True)
async def test_what_was_committed_here_is_known_here_once_it_was_waited_for() -> None:
    people = await sync_to_async(create_people)()
    async with listening() as (caches, _):
        principal = await principal_of(caches, people.acme_key)
        for number in range(20):
            name = f"new-{number}"
            assert (await refusal(caches.routes.load_topic(principal, "-", name))).status == 404
            await in_db(partial(Topic.objects.create, namespace=people.acme, name=name))
            await caches.hear_own_changes()
            assert (await caches.routes.load_topic(principal, "-", name)).name == name


@pytest.mark.django_db(transaction=True)
async def test_nobody_waits_for_what_nobody_can_hear() -> None:
    caches = Caches()
    await caches.hear_own_changes()  # nobody listens
    caches.is_listening = True  # and is never told
    async with asyncio.timeout(WAIT_S):
        await caches.hear_own_changes()
    assert caches._awaited == {}


@pytest.mark.sized
async def test_namespaces_of_eight_shards_route_without_a_query(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: set[str] = set()

    async def prepare(shard: str) -> None:
        prepared.add(shard)

    monkeypatch.setattr("mqservice.caches.prepare_store", prepare)
    # Nothing grows old, however long a slow machine takes for a thousand queries.
    monkeypatch.setattr("mqservice.lib.lookup_cache.SystemClock", ManualClock)
    count = sized(100, torture=1_000)
    tenant = await sync_to_async(_fill)(namespace_count=count, shard_count=8)
    caches = Caches()
    wide = Principal(
        key_id="k",
        tenant_id=tenant.pk,
        tenant=tenant.name,
        namespace_id=None,
        namespace=None,
        scopes=frozenset(),
    )
    for number in range(count):
        await caches.routes.load_topic(wide, f"n{number}", "orders")
    assert prepared == {f"s{number}" for number in range(8)}

    def fail(*_: object) -> NoReturn:
        raise AssertionError("asked again")

    monkeypatch.setattr("mqservice.caches.find_topic_route", fail)
    found = [caches.routes.topic(wide, f"n{number}", "orders") for number in range(count)]
    assert [route.shard for route in found if route is not None] == [
        f"s{number % 8}" for number in range(count)
    ]


def _fill(*, namespace_count: int, shard_count: int) -> Tenant:
    """Namespaces ``n0``, ``n1``, … each with a topic, in turn in shards ``s0``, ``s1``, …"""
    tenant = Tenant.objects.create(name="wide")
    namespaces = Namespace.objects.bulk_create(
        Namespace(tenant=tenant, name=f"n{number}", shard=f"s{number % shard_count}")
        for number in range(namespace_count)
    )
    Topic.objects.bulk_create(
        Topic(namespace=namespace, name="orders", queue_count=1) for namespace in namespaces
    )
    return tenant


async def test_a_namespace_that_is_placed_elsewhere_routes_there_at_once(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare(shard: str) -> None:
        pass

    monkeypatch.setattr("mqservice.caches.prepare_store", prepare)
    tenant = await sync_to_async(_fill)(namespace_count=1, shard_count=1)
    bound = Principal(
        key_id="k",
        tenant_id=tenant.pk,
        tenant=tenant.name,
        namespace_id=None,
        namespace=None,
        scopes=frozenset(),
    )
    async with listening() as (caches, _):
        assert (await caches.routes.load_topic(bound, "n0", "orders")).shard == "s0"
        moved = Namespace.objects.filter(name="n0")
        await sync_to_async(moved.update)(shard="s1")
        await caches.saw("all")
        assert caches.routes.topic(bound, "n0", "orders") is None
        assert (await caches.routes.load_topic(bound, "n0", "orders")).shard == "s1"
        assert (await caches.routes.load_namespace(bound, "n0")).shard == "s1"
