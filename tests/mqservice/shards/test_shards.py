"""Which shard a namespace gets, which shards there are, and how requests find them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts.audit_search import installation_history
from mqservice.accounts.models import AuditEntry, Namespace, Tenant
from mqservice.accounts.services import get_or_create_namespace, get_or_create_tenant
from mqservice.console.audit.sentences import sentence_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.routes import find_group_route
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.shards import queries, sweeps
from mqservice.shards.models import Replica, Shard, ShardState, Split, SplitState
from mqservice.shards.queries import (
    GIB,
    find_address,
    forget_shard_names,
    is_alive,
    is_following,
    replicas,
    shard_names,
    shard_of_new_namespace,
    shards,
)
from mqservice.shards.services import (
    add_shard,
    await_move,
    place_namespace,
    remove_shard,
    set_state,
    start_move,
)
from mqservice.store import StoreClient, StoreUnavailable, blocking_client, close_store
from mqservice.topics.models import Topic
from mqservice.topics.routes import find_topic_route
from tests.engine import running_engine

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_names() -> Iterator[None]:
    forget_shard_names()
    yield
    forget_shard_names()


def make(name: str, *, free_bytes: int = 100 * GIB, age_s: int = 0, **more: Any) -> Shard:
    """Any: columns."""
    heard = timezone.now() - timedelta(seconds=age_s)
    return Shard.objects.create(name=name, free_bytes=free_bytes, heartbeat_at=heard, **more)


def place_new() -> str:
    with transaction.atomic():
        return shard_of_new_namespace()


def give(shard: str, count: int) -> Tenant:
    """So many namespaces of one tenant to a shard."""
    tenant = get_or_create_tenant("acme")
    Namespace.objects.bulk_create(
        Namespace(tenant=tenant, name=f"{shard}-{number}", shard=shard) for number in range(count)
    )
    return tenant


def test_without_rows_there_is_the_main_shard_and_nothing_to_configure() -> None:
    assert [shard.name for shard in shards()] == shard_names() == [MAIN_SHARD]
    assert place_new() == MAIN_SHARD
    assert is_alive(shards()[0])
    assert get_or_create_namespace(get_or_create_tenant("acme"), "acme").shard == MAIN_SHARD


def test_a_new_namespace_goes_to_the_shard_with_most_room() -> None:
    make(MAIN_SHARD, free_bytes=50 * GIB)
    make("s2", free_bytes=80 * GIB)
    make("s3", free_bytes=70 * GIB)
    assert place_new() == "s2"
    set_state("s2", ShardState.DRAINING)
    assert place_new() == "s3"
    Shard.objects.filter(name="s3").update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert place_new() == MAIN_SHARD


def test_on_one_disk_the_shard_with_the_fewest_namespaces_is_chosen() -> None:
    for name in (MAIN_SHARD, "s2", "s3"):
        make(name, free_bytes=80 * GIB + len(name))
    give(MAIN_SHARD, 1)
    give("s2", 2)
    assert place_new() == "s3"
    give("s3", 3)
    assert place_new() == MAIN_SHARD


def test_no_namespace_is_placed_where_none_is_taken() -> None:
    make("s2")
    for name in (MAIN_SHARD, "s2"):
        set_state(name, ShardState.DRAINING)
    with pytest.raises(Problem, match="no shard takes new namespaces"):
        place_new()


def test_a_shard_is_removed_only_drained_and_empty() -> None:
    add_shard("s2", "tcp://127.0.0.1:7702")
    assert (find_address("s2"), find_address("s9")) == ("tcp://127.0.0.1:7702", "")
    for name, words in ((MAIN_SHARD, "main shard"), ("s9", "no shard s9"), ("s2", "drain it")):
        with pytest.raises(Problem, match=words):
            remove_shard(name)
    with pytest.raises(Problem, match="exists already"):
        add_shard("s2", "")
    with pytest.raises(Problem, match="characters"):
        add_shard("a b", "")
    set_state("s2", ShardState.DRAINING)
    give("s2", 1)
    with pytest.raises(Problem, match="still has 1 namespaces"):
        remove_shard("s2")
    Namespace.objects.filter(shard="s2").delete()
    remove_shard("s2")
    assert shard_names() == [MAIN_SHARD]


def test_an_operator_places_a_namespace_that_has_nothing() -> None:
    make("s2")
    namespace = get_or_create_namespace(get_or_create_tenant("acme"), "acme")
    place_namespace("acme", "s2")
    namespace.refresh_from_db()
    assert namespace.shard == "s2"
    for name, shard, words in (("acme", "s9", "no shard s9"), ("x", "s2", "x does not exist")):
        with pytest.raises(Problem, match=words):
            place_namespace(name, shard)
    Topic.objects.create(namespace=namespace, name="orders", queue_count=1)
    place_namespace("acme", "s2")
    with pytest.raises(Problem, match="has topics or groups in s2"):
        place_namespace("acme", MAIN_SHARD)


def test_the_operators_command_says_why_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("shard", "add", "s2", "--address=tcp://127.0.0.1:1")
    assert '"name":"s2","state":"active","is_alive":false' in capsys.readouterr().out
    with pytest.raises(CommandError, match="drain it first"):
        call_command("shard", "remove", "s2")


def told(rows: Iterable[AuditEntry]) -> list[str]:
    """Sentences, the newest first."""
    return [sentence_of(row, {}) for row in rows]


def test_what_an_operator_does_to_shards_is_audited(capsys: pytest.CaptureFixture[str]) -> None:
    tenant = get_or_create_tenant("acme")
    get_or_create_namespace(tenant, "acme")
    call_command("shard", "add", "s2", "--address=tcp://127.0.0.1:1")
    call_command("shard", "place", "s2", "--namespace=acme")
    call_command("shard", "place", "s2", "--namespace=acme")
    for _ in range(2):  # the second time nothing changes
        call_command("shard", "drain", "s2")
    call_command("shard", "activate", "s2")
    with pytest.raises(CommandError):
        call_command("shard", "move", "s2", "--node=b")
    call_command("shard", "place", MAIN_SHARD, "--namespace=acme")
    call_command("shard", "drain", "s2")
    call_command("shard", "remove", "s2")
    assert told(installation_history())[:5] == [
        f"the service {done} the shard s2"
        for done in ("removed", "drained", "activated", "drained", "added")
    ]
    own = list(AuditEntry.objects.filter(tenant=tenant).order_by("-id"))
    assert told(own) == ["the service moved the namespace acme to another shard"] * 2
    assert (own[1].before, own[1].after) == ({"shard": MAIN_SHARD}, {"shard": "s2"})
    capsys.readouterr()
    call_command("shard", "history")
    newest = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (newest["action"], newest["target"]) == ("shard.remove", "shards/s2")


def test_a_takeover_is_told_to_operators_and_to_tenants_without_names_of_machines() -> None:
    make("s2")
    tenant = give("s2", 2)
    stranger = get_or_create_tenant("globe")
    get_or_create_namespace(stranger, "globe")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT mq_audit_takeover('s2', 'node-b', 'node-a', 4, 'nothing was heard of node-a')"
        )
    [row] = AuditEntry.objects.filter(tenant=None, action="shard.take_over", target="shards/s2")
    assert told([row]) == ["node-b took over the shard s2"]
    assert (row.before, row.after) == ({"node": "node-a"}, {"node": "node-b"})
    assert row.details == {"epoch": 4, "reason": "nothing was heard of node-a"}
    [own] = AuditEntry.objects.filter(tenant=tenant)
    assert told([own]) == ["the service took over the shard s2"]
    assert "node" not in f"{own.before} {own.after} {own.details} {own.actor}"
    assert not AuditEntry.objects.filter(tenant=stranger).exists()


def follow(shard: Shard, node: str, *, log_end: int = 0, behind_ms: int = 0) -> Replica:
    return Replica.objects.create(
        shard=shard, node=node, heartbeat_at=timezone.now(), log_end=log_end, behind_ms=behind_ms
    )


def test_a_shard_is_handed_only_to_a_node_that_has_all_of_it() -> None:
    make("idle")
    s2 = make("s2", owner="a", epoch=3, log_end=5_000)
    follow(s2, "b", log_end=4_000)
    follow(s2, "late", behind_ms=60_000)
    follow(s2, "new", behind_ms=-1)
    for name, node, words in (
        ("s9", "b", "no shard s9"),
        ("idle", "b", "no node owns idle"),
        ("s2", "a", "a owns s2 already"),
        ("s2", "late", "late has no replica of s2 that is up to date; nodes that have one: b"),
        ("s2", "new", "new has no replica"),
    ):
        with pytest.raises(Problem, match=words):
            start_move(name, node)
    assert start_move("s2", "b") == "a"
    s2.refresh_from_db()
    assert s2.move_to == "b"


def test_a_replica_that_lacks_what_a_split_made_is_not_up_to_date() -> None:
    s2 = make("s2", owner="a", epoch=3)
    replica = follow(s2, "b")
    Split.objects.create(
        source="main", target="s2", namespaces=["shop"], state=SplitState.DONE.value, number=1,
        held_until=timezone.now() - timedelta(seconds=3),
    )  # fmt: skip
    for behind_ms, is_there in ((1_000, True), (2_500, False), (9_000, False)):
        replica.behind_ms = behind_ms
        replica.save()
        assert [is_following(each) for each in replicas()["s2"]] == [is_there]
    with pytest.raises(Problem, match="b has no replica of s2 that is up to date"):
        start_move("s2", "b")
    Split.objects.update(state=SplitState.FAILED.value)
    assert start_move("s2", "b") == "a"


@pytest.mark.parametrize("off", [-timedelta(hours=1), timedelta(hours=1)])
def test_who_is_heard_does_not_depend_on_the_clock_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    s2 = make("s2", owner="a")
    make("silent", owner="a", age_s=60)
    follow(s2, "b")
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + off)
    alive = {shard.name: is_alive(shard) for shard in shards()}
    assert alive == {MAIN_SHARD: True, "s2": True, "silent": False}
    assert [is_following(each) for each in replicas()["s2"]] == [True]
    assert start_move("s2", "b") == "a"
    with pytest.raises(Problem, match="no node owns silent"):
        start_move("silent", "b")


def test_who_waits_for_a_hand_over_hears_how_it_ended() -> None:
    make("s2", owner="a", move_to="b")
    await_move("s2", "b", lambda _: Shard.objects.update(owner="b", move_to=""))
    Shard.objects.update(owner="a", move_to="b")
    with pytest.raises(Problem, match="a kept s2"):
        await_move("s2", "b", lambda _: Shard.objects.update(move_to=""))
    Shard.objects.update(move_to="b")
    with pytest.raises(Problem, match="b has not taken s2 within 30 s"):
        await_move("s2", "b", lambda _: None)
    assert Shard.objects.get().move_to == ""


def test_the_list_says_who_could_take_over(capsys: pytest.CaptureFixture[str]) -> None:
    s2 = make("s2", owner="a", epoch=3, log_end=5_000)
    follow(s2, "b", log_end=4_000)
    call_command("shard", "list")
    line = capsys.readouterr().out.splitlines()[1]
    assert '"owner":"a","epoch":3,"move_to":""' in line
    assert '"replicas":[{"node":"b","is_heard":true,"is_following":true' in line
    assert '"lag_bytes":1000' in line


def test_routes_say_the_shard_of_their_namespace_in_one_query() -> None:
    tenant = give("s2", 1)
    namespace = Namespace.objects.get(name="s2-0")
    Topic.objects.create(namespace=namespace, name="orders", queue_count=1)
    ConsumerGroup.objects.create(namespace=namespace, name="billing")
    for find, name in ((find_topic_route, "orders"), (find_group_route, "billing")):
        with CaptureQueriesContext(connection) as asked:
            route = find(tenant.pk, "s2-0", name)
        assert route is not None
        assert (route.shard, len(asked)) == ("s2", 1)


@contextmanager
def shard_engine(name: str) -> Iterator[None]:
    with running_engine({"MQ_ENGINE_SHARD": name}) as socket:
        make(name, address=socket)
        yield


def test_a_client_finds_the_engine_of_its_shard_and_of_no_other() -> None:
    with shard_engine("s2"):
        with blocking_client("s2") as client:
            assert client.stats().broker == "s2"
        Shard.objects.create(name="s3", address=find_address("s2"))
        with (
            blocking_client("s3") as client,
            pytest.raises(StoreUnavailable, match="owns the shard s2, not s3"),
        ):
            client.ping()
    with (
        blocking_client("s9") as client,
        pytest.raises(StoreUnavailable, match="no engine has said yet where the shard s9 is"),
    ):
        client.ping()


def test_the_main_shard_with_a_replicated_log_is_where_its_owner_serves(
    settings: Settings,
) -> None:
    def failure() -> str:
        with blocking_client(MAIN_SHARD) as client, pytest.raises(StoreUnavailable) as caught:
            client.ping()
        return str(caught.value)

    with shard_engine("s2"):
        settings.MQ_ENGINE_SOCKET = find_address("s2")
        main = make(MAIN_SHARD, address="tcp://127.0.0.1:1")
        assert "not main" in failure()
        settings.MQ_REPLICATED_LOG = "file:///log"
        assert "tcp://127.0.0.1:1" in failure()
        # A path says nothing to another machine, which has its own in its settings.
        main.address = "/run/of/another/machine"
        main.save()
        assert "not main" in failure()


def test_each_shard_is_asked_and_one_that_is_away_is_left_alone_for_a_while(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = 0
    monkeypatch.setattr(sweeps, "_now_ms", lambda: now_ms)
    monkeypatch.setattr(sweeps, "_away", {})
    make("gone", address="/nonexistent/engine.sock")
    asked: list[str] = []

    def ask(client: StoreClient) -> None:
        asked.append(client.shard)
        client.ping()

    def sweep() -> list[str]:
        asked.clear()
        sweeps.each_shard(ask, action="asked", failure="Could not ask")
        return list(asked)

    assert sweep() == [MAIN_SHARD, "gone"]
    assert [record.message for record in caplog.records] == ["Could not ask"]
    assert sweep() == [MAIN_SHARD]
    now_ms += sweeps.REST_MS
    assert sweep() == [MAIN_SHARD, "gone"]
    assert sweep() == [MAIN_SHARD]


def test_shards_are_remembered_while_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make("s2")
    assert shard_names() == [MAIN_SHARD, "s2"]
    with CaptureQueriesContext(connection) as asked:
        assert shard_names() == [MAIN_SHARD, "s2"]
    assert not asked.captured_queries

    def fail() -> list[Shard]:
        raise DatabaseError("away")

    monkeypatch.setattr(queries, "shards", fail)
    monkeypatch.setattr(queries, "_NAMES_CACHED_MS", 0)
    assert shard_names() == [MAIN_SHARD, "s2"]
    forget_shard_names()
    assert shard_names() == [MAIN_SHARD]


async def test_closing_leaves_no_client_behind() -> None:
    await close_store()


def test_a_shard_leaves_its_log_once_no_node_has_it() -> None:
    tenant = give("s2", 2)
    first, second = Namespace.objects.order_by("name")
    for namespace, name, durability in (
        (first, "a", "replicated"), (first, "b", "sync"), (second, "c", "async"),
    ):  # fmt: skip
        Topic.objects.create(namespace=namespace, name=name, durability=durability)
    with pytest.raises(CommandError, match="no shard s2"):
        call_command("shard", "detach", "s2")
    s2 = make("s2", owner="node-a", epoch=3, address="tcp://a:1", log_end=9)
    follow(s2, "node-b", log_end=9)
    for words in ("node-a, node-b has s2", "node-b has s2"):
        for options in ({"dry_run": True}, {}):
            with pytest.raises(CommandError, match=words):
                call_command("shard", "detach", "s2", **options)
        Shard.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    Replica.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    call_command("shard", "detach", "s2", dry_run=True)
    s2.refresh_from_db()
    assert (s2.owner, Topic.objects.filter(durability="replicated").count()) == ("node-a", 1)

    call_command("shard", "detach", "s2")
    s2.refresh_from_db()
    assert (s2.owner, s2.address, s2.epoch, s2.heartbeat_at) == ("", "", 3, None)
    assert not replicas()
    rows = Topic.objects.order_by("name").values_list("durability", "revision")
    assert list(rows) == [("sync", 2), ("sync", 1), ("async", 1)]
    done = "the service took the shard s2 off its replicated log"
    assert told(installation_history())[0] == done
    [own] = AuditEntry.objects.filter(tenant=tenant)
    assert (told([own])[0], own.namespace, own.details) == (done, first.name, {"topics": 1})
    call_command("shard", "detach", MAIN_SHARD)  # which may have no row
