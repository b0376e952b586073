"""The target of a split comes to the machine of the source, and goes back when its node has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts import split_target
from mqservice.accounts.management.commands import split_shard as command
from mqservice.accounts.split_target import give_back, node_elsewhere
from mqservice.lib.problem import Problem
from mqservice.shards.models import Replica, Shard, Split, SplitState
from mqservice.shards.split_lines import SplitDone

pytestmark = pytest.mark.django_db


class FakeTime:
    """Its sleeps take no time; ``on_sleep`` is what happens during one."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.on_sleep: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s
        self.on_sleep()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> FakeTime:
    """Node ``here`` serves main and follows s2, node ``there`` the other way round."""
    settings.MQ_REPLICATED_LOG = True
    for name, owner, replica in (("main", "here", "there"), ("s2", "there", "here")):
        soon = timezone.now() + timedelta(minutes=1)  # however slow the test is
        shard = Shard.objects.create(name=name, owner=owner, epoch=1, heartbeat_at=soon)
        Replica.objects.create(shard=shard, node=replica, heartbeat_at=soon, behind_ms=0)
    clock = FakeTime()
    monkeypatch.setattr(split_target, "time", clock)
    monkeypatch.setattr(split_target, "await_move", hand_over)
    monkeypatch.setattr(command, "plan_split", lambda *_: None)
    return clock


def hand_over(name: str, node: str) -> None:
    """As the nodes do it: who had it follows now."""
    shard = Shard.objects.get(name=name)
    assert shard.move_to == node
    Replica.objects.filter(shard=shard).update(node=shard.owner)
    Shard.objects.filter(name=name).update(owner=node, move_to="")


def owner() -> str:
    return Shard.objects.get(name="s2").owner


def begin_anew() -> Split:
    """What a split leaves: the replica has not seen it yet."""
    return Split.objects.create(
        source="main", target="s2", namespaces=["shop"], state=SplitState.DONE.value, number=1,
        held_until=timezone.now() + timedelta(hours=1),
    )  # fmt: skip


def test_a_target_of_another_node_comes_and_goes_back(
    monkeypatch: pytest.MonkeyPatch, clock: FakeTime, capsys: pytest.CaptureFixture[str]
) -> None:
    owners = []

    def split_shard(*_: object, **__: object) -> SplitDone:
        owners.append(owner())
        made = begin_anew()

        def fetch() -> None:
            owners.append(owner())
            made.delete()

        clock.on_sleep = fetch
        return SplitDone(topics=1, groups=1, held_ms=5)

    monkeypatch.setattr(command, "split_shard", split_shard)
    call_command("split_shard", "main", "s2", namespace=["shop"])

    assert owners == ["here", "here"], "it goes back only when its node has what the split made"
    assert owner() == "there"
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["say"], each.get("is_done")) for each in said] == [
        ("done", None), ("return", False), ("return", True),
    ]  # fmt: skip


def test_a_target_that_came_for_nothing_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> SplitDone:
        assert owner() == "here"
        raise Problem.of("CONFLICT", "it took too long")

    monkeypatch.setattr(command, "split_shard", fail)
    with pytest.raises(CommandError, match="it took too long"):
        call_command("split_shard", "main", "s2", namespace=["shop"])
    assert Shard.objects.get(name="s2").move_to == "there"


def test_where_its_node_is_gone_the_target_stays_and_the_operator_hears_so(
    monkeypatch: pytest.MonkeyPatch, clock: FakeTime
) -> None:
    def split_shard(*_: object, **__: object) -> SplitDone:
        Replica.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
        return SplitDone(topics=1, groups=1, held_ms=5)

    monkeypatch.setattr(command, "split_shard", split_shard)
    with pytest.raises(CommandError, match=r"live in s2 now, .* there is not running, .* move s2"):
        call_command("split_shard", "main", "s2", namespace=["shop"])
    assert owner() == "here"
    assert clock.now_s > 30


def test_a_node_that_fetches_for_long_is_waited_for(clock: FakeTime) -> None:
    Shard.objects.filter(name="s2").update(owner="here")
    Replica.objects.filter(shard="s2").update(node="there")
    made = begin_anew()
    clock.on_sleep = lambda: clock.now_s > 60 and made.delete()
    give_back("s2", "there")
    assert owner() == "there"


@pytest.mark.parametrize(
    ("owners", "is_replicated", "node"),
    [
        (("here", "there"), True, "there"),
        (("here", "here"), True, ""),
        (("here", ""), True, ""),
        (("here", "there"), False, ""),
    ],
)
def test_whether_it_is_elsewhere(
    settings: Settings, owners: tuple[str, str], is_replicated: bool, node: str
) -> None:
    settings.MQ_REPLICATED_LOG = is_replicated
    for name, of in zip(("main", "s2"), owners, strict=True):
        Shard.objects.filter(name=name).update(owner=of)
    assert node_elsewhere("main", "s2") == node
