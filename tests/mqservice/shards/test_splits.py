"""A split and its states: what is refused, what each change does, and what a killed one leaves."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts import shard_split
from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.accounts.services import get_or_create_tenant
from mqservice.accounts.shard_changes import commit_split
from mqservice.accounts.shard_parts import local_shard
from mqservice.console.audit.sentences import sentence_of
from mqservice.lib.problem import Problem
from mqservice.shards import splits
from mqservice.shards.models import Shard, ShardState, Split, SplitState
from mqservice.shards.queries import forget_shard_names, shard_of_new_namespace
from mqservice.shards.services import place_namespace, remove_shard, set_state
from mqservice.shards.splits import ANY_LEFT, begin, check_split, find_left, hold, resolve
from mqservice.shards.tasks import resolve_splits
from mqservice.store import (
    NamespaceDropReply,
    NamespaceDropRequest,
    NamespaceHoldsReply,
    NamespaceReleaseRequest,
    StoreDiscardRequest,
    StoreUnavailable,
)
from mqservice.supervisor.data_dir import DataDir
from mqservice.topics.models import Topic
from mqservice.topics.routes import find_topic_route

pytestmark = pytest.mark.django_db

NAMES = ["billing", "shop"]


def heard_of() -> datetime:
    """The heartbeat of a shard that is alive, however slow the test is."""
    return timezone.now() + timedelta(minutes=1)


@pytest.fixture(autouse=True)
def shards() -> Iterator[None]:
    """Two that run; the namespaces are in the main one."""
    forget_shard_names()
    for name in ("main", "s2", "s3"):
        Shard.objects.create(name=name, owner="here", heartbeat_at=heard_of())
    tenant = get_or_create_tenant("acme")
    for name in (*NAMES, "audit"):
        Namespace.objects.create(tenant=tenant, name=name)
    yield
    forget_shard_names()


class Engine:
    """That of the source and that of the target, as far as a split talks to them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.away: set[str] = set()
        self.split_number = 0
        self._shard = ""

    def of(self, shard: str) -> Engine:
        self._shard = shard
        return self

    def __enter__(self) -> Engine:
        if self._shard in self.away:
            raise StoreUnavailable("it is away")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def store_discard(self, request: StoreDiscardRequest) -> None:
        assert request.namespaces == NAMES
        self.calls.append((f"{self._shard} discard", request.number))

    def namespace_holds(self) -> NamespaceHoldsReply:
        return NamespaceHoldsReply(held={}, split_number=self.split_number)

    def namespace_release(self, request: NamespaceReleaseRequest) -> None:
        self.calls.append((f"{self._shard} release", request.number))

    def namespace_drop(self, request: NamespaceDropRequest) -> NamespaceDropReply:
        self.calls.append((f"{self._shard} drop", request.number))
        return NamespaceDropReply(topic_count=1, group_count=1)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(splits, "blocking_client", engine.of)
    return engine


def places() -> dict[str, tuple[str, str]]:
    """Where each namespace lives and goes."""
    rows = Namespace.objects.order_by("name").values_list("name", "shard", "moving_to")
    return {name: (shard, moving_to) for name, shard, moving_to in rows}


def state_of(split: Split) -> str:
    split.refresh_from_db()
    return str(split.state)


def is_any_left() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {ANY_LEFT}")
        return bool(cursor.fetchone()[0])


def expire(split: Split) -> None:
    Split.objects.filter(pk=split.pk).update(held_until=timezone.now() - timedelta(seconds=1))


def test_a_split_moves_the_rows_in_one_step(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    assert Shard.objects.get(name="s2").state == ShardState.DRAINING.value
    hold(split)
    assert places() == {
        "audit": ("main", ""), "billing": ("main", "s2"), "shop": ("main", "s2"),
    }  # fmt: skip
    commit_split(split)
    assert places() == {"audit": ("main", ""), "billing": ("s2", ""), "shop": ("s2", "")}
    assert is_any_left()
    resolve(split)
    assert engine.calls == [("main drop", split.number)]
    assert state_of(split) == SplitState.DONE.value
    assert Shard.objects.get(name="s2").state == ShardState.ACTIVE.value
    assert not is_any_left()


def test_operators_and_tenants_read_of_it() -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    commit_split(split)
    of_operators = AuditEntry.objects.get(tenant=None)
    assert sentence_of(of_operators, {}).endswith("split the shard main")
    assert of_operators.details == {"namespaces": NAMES}
    of_tenant = AuditEntry.objects.filter(action="namespace.place").order_by("target")
    assert [each.target for each in of_tenant] == ["namespaces/billing", "namespaces/shop"]
    assert all(each.after == {"shard": "s2"} for each in of_tenant)


def test_routes_say_that_their_namespace_is_moving() -> None:
    namespace = Namespace.objects.get(name="billing")
    Topic.objects.create(namespace=namespace, name="orders", queue_count=1)
    split = begin("main", "s2", NAMES)
    for is_moving in (False, True):
        route = find_topic_route(namespace.tenant_id, "billing", "orders")
        assert route is not None
        assert route.is_moving == is_moving
        if not is_moving:
            hold(split)


REFUSED: list[tuple[tuple[str, str, list[str]], str]] = [
    (("main", "main", NAMES), "cannot be split into itself"),
    (("main", "s2", []), "at least one namespace"),
    (("main", "s9", NAMES), "there is no shard s9"),
    (("main", "s3", NAMES), "would replace theirs"),
    (("main", "s2", ["nobody"]), "nobody does not exist"),
    (("main", "s2", ["billing", "audit"]), "audit lives in s3"),
]


@pytest.mark.parametrize(("asked", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_cannot_be_done_is_refused_plainly(
    asked: tuple[str, str, list[str]], why: str
) -> None:
    Namespace.objects.filter(name="audit").update(shard="s3")
    with pytest.raises(Problem, match=why):
        check_split(*asked)
    with pytest.raises(Problem, match=why):
        begin(*asked)
    assert not Split.objects.exists()


@pytest.mark.parametrize(
    ("is_replicated", "why"),
    [
        (True, "s2; its owner is here. Run the command there"),
        (False, "MQ_SHARDS naming"),
    ],
)
def test_a_shard_of_another_machine_is_refused(
    settings: Settings, tmp_path: Path, is_replicated: bool, why: str
) -> None:
    settings.MQ_REPLICATED_LOG = is_replicated
    settings.MQ_DATA_DIR = tmp_path
    with pytest.raises(Problem, match=why):
        local_shard("s2")


def test_a_socket_that_a_killed_engine_has_left_is_no_engine(
    settings: Settings, tmp_path: Path
) -> None:
    settings.MQ_REPLICATED_LOG = True
    settings.MQ_DATA_DIR = tmp_path
    data_dir = DataDir(tmp_path)
    (data_dir.shards / "s2" / "store").mkdir(parents=True)
    path = data_dir.socket_of("s2")
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        engine.listen()
        assert local_shard("s2").socket == path
    with pytest.raises(Problem, match="does not serve s2"):
        local_shard("s2")


def test_a_shard_whose_engine_is_gone_is_refused() -> None:
    Shard.objects.filter(name="s2").update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    with pytest.raises(Problem, match="s2 is not running"):
        check_split("main", "s2", NAMES)


def test_a_hold_that_takes_too_long_cannot_be_committed(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    expire(split)
    with pytest.raises(Problem, match="took too long"):
        commit_split(split)
    assert not AuditEntry.objects.exists()
    assert is_any_left()
    resolve_splits()
    assert engine.calls == [("main release", split.number), ("s2 discard", split.number)]
    assert set(places().values()) == {("main", "")}
    assert state_of(split) == SplitState.FAILED.value
    assert Shard.objects.get(name="s2").state == ShardState.ACTIVE.value


def test_once_released_a_hold_cannot_be_committed(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    assert splits.begin_release(split)
    with pytest.raises(Problem, match="has ended"):
        commit_split(split)
    assert set(places().values()) == {("main", ""), ("main", "s2")}
    resolve(split)
    assert set(places().values()) == {("main", "")}


def test_what_was_uploaded_stays_where_the_log_may_say_that_the_shard_began_with_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_split, "blocking_client", engine.of)
    split = begin("main", "s2", NAMES)
    for number, is_in_log in ((0, False), (split.number - 1, False), (split.number, True)):
        engine.split_number = number
        assert shard_split._is_in_log(split) is is_in_log
    engine.split_number = 0
    engine.away = {"s2"}
    assert shard_split._is_in_log(split), "nobody knows"


def test_once_committed_a_hold_is_not_released(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    late = Split.objects.get(pk=split.pk)
    commit_split(split)
    assert not splits.begin_release(late)
    resolve(late)
    assert engine.calls == [("main drop", split.number)]


def test_a_hold_in_time_is_left_to_its_command(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    assert not is_any_left()
    assert find_left() == []
    resolve_splits()
    assert engine.calls == []
    assert state_of(split) == SplitState.HOLDING.value


def late(engine: Engine, *, away: str) -> Split:
    """A hold whose time is over, while one engine does not answer."""
    split = begin("main", "s2", NAMES)
    hold(split)
    expire(split)
    engine.away = {away}
    resolve_splits()
    return split


def test_while_the_source_is_away_it_is_tried_again(engine: Engine) -> None:
    split = late(engine, away="main")
    assert state_of(split) == SplitState.RELEASING.value
    assert places()["billing"] == ("main", "s2")  # requests still wait: the engine refuses them
    engine.away = set()
    resolve_splits()
    assert state_of(split) == SplitState.FAILED.value


def released(engine: Engine) -> Split:
    """One whose source serves again, and whose target does not know yet."""
    split = late(engine, away="s2")
    assert state_of(split) == SplitState.CLEANING.value
    return split


def test_what_a_target_may_have_keeps_namespaces_away_until_it_is_deleted(engine: Engine) -> None:
    """Somebody else may have given a new one the name of one that was copied."""
    split = released(engine)
    assert set(places().values()) == {("main", "")}, "the source serves"
    assert is_any_left()
    Shard.objects.filter(name="s2").update(state=ShardState.ACTIVE.value, free_bytes=1 << 50)
    assert shard_of_new_namespace() != "s2"
    for refused in (
        lambda: place_namespace("audit", "s2"),
        lambda: set_state("s2", ShardState.ACTIVE),
        lambda: begin("main", "s2", NAMES),
    ):
        with pytest.raises(
            Problem, match="engine of s2 is to delete what a split of main has left"
        ):
            refused()
    engine.away = set()
    resolve_splits()
    assert engine.calls[-1] == ("s2 discard", split.number)
    assert state_of(split) == SplitState.FAILED.value
    assert not is_any_left()
    assert shard_of_new_namespace() == "s2"
    assert place_namespace("audit", "s2") == "main"


def test_a_target_that_is_lost_holds_nobody_up_and_is_cleaned_if_it_comes_back(
    engine: Engine,
) -> None:
    split = released(engine)
    Shard.objects.filter(name="s2").update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert not is_any_left(), "nobody asks it in vain"
    assert find_left() == []
    splits.fail(begin("main", "s3", NAMES))
    remove_shard("s2")
    assert find_left() == []
    Shard.objects.create(name="s2", owner="here", heartbeat_at=heard_of())
    assert shard_of_new_namespace() != "s2"
    assert is_any_left()
    engine.away = set()
    resolve_splits()
    assert engine.calls[-1] == ("s2 discard", split.number)
    assert state_of(split) == SplitState.FAILED.value


def test_what_was_left_is_ended_before_the_next_attempt(engine: Engine) -> None:
    split = released(engine)
    engine.away = set()
    splits.end_left("main", "s2")
    assert state_of(split) == SplitState.FAILED.value
    hold(begin("main", "s2", NAMES))


def test_of_two_who_end_a_split_the_slower_one_does_no_harm(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    assert splits.begin_release(split)
    slow, slower = (Split.objects.get(pk=split.pk) for _ in range(2))
    resolve(split)
    resolve(slow)
    second = begin("main", "s2", NAMES)
    hold(second)
    resolve(slower)
    assert places()["billing"] == ("main", "s2"), "the second attempt holds"
    assert state_of(split) == SplitState.FAILED.value
    assert state_of(second) == SplitState.HOLDING.value


def test_a_namespace_that_was_deleted_meanwhile_stops_it() -> None:
    split = begin("main", "s2", NAMES)
    hold(split)
    Namespace.objects.get(name="shop").delete()
    with pytest.raises(Problem, match="deleted meanwhile"):
        commit_split(split)
    assert places()["billing"] == ("main", "s2")


def test_a_command_that_comes_after_a_killed_one_goes_on(engine: Engine) -> None:
    first = begin("main", "s2", NAMES)
    second = begin("main", "s2", NAMES)
    assert second.number > first.number
    with pytest.raises(Problem, match="has ended"):
        hold(first)
    hold(second)
    with pytest.raises(Problem, match="under way"):
        begin("main", "s2", NAMES)
    with pytest.raises(Problem, match="under way"):
        begin("main", "s3", NAMES)


def test_nothing_else_is_put_into_the_target_meanwhile(engine: Engine) -> None:
    split = begin("main", "s2", NAMES)
    with pytest.raises(Problem, match="into s2 is under way"):
        place_namespace("audit", "s2")
    hold(split)
    with pytest.raises(Problem, match="under way"):
        set_state("s2", ShardState.ACTIVE)
    with pytest.raises(Problem, match="under way"):
        remove_shard("s2")


def test_activating_the_target_gives_up_a_split_that_was_killed() -> None:
    split = begin("main", "s2", NAMES)
    set_state("s2", ShardState.ACTIVE)
    assert state_of(split) == SplitState.FAILED.value
    with pytest.raises(Problem, match="has ended"):
        hold(split)


def test_a_target_that_was_drained_stays_so(engine: Engine) -> None:
    set_state("s2", ShardState.DRAINING)
    split = begin("main", "s2", NAMES)
    splits.fail(split)
    assert state_of(split) == SplitState.FAILED.value
    assert Shard.objects.get(name="s2").state == ShardState.DRAINING.value
