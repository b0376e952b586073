"""A namespace goes to another shard under load: nothing acknowledged is lost, doubled or out of
order, whatever is killed on the way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any  # decoded JSON

import httpx
import msgspec
import pytest

from mqservice.supervisor.operator_commands import service_environment as environment_of
from storage_engine.client import StoreClient
from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.clients import Client
from tests.acceptance.history.events import Accepted, History, killed_within
from tests.acceptance.history.judge import Verdict, judge
from tests.acceptance.history.watching import (
    Signals,
    WatchingProducer,
    WatchingRestConsumer,
    WatchingSocketConsumer,
)
from tests.services import (
    Service,
    api_of,
    listed_shards,
    run_mqservice,
    running_service,
    service_environment,
    wait_until,
)
from tests.sizes import sized

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

SEED = 20_281
GROUPS: dict[str, dict[str, object]] = {"plain": {}, "ordered": {"ordered": True}}
DRAIN_WAIT_S = 120
KEY = {"idempotency-key": "of-before-the-move"}
# Where the command is killed, and whether its namespaces have another shard by then.
STEPS = {
    "splits.begin": False,
    "PartProgram.copy": False,
    "splits.hold": False,
    "_names": False,
    "PartProgram.finish": False,
    "_have_adopted": False,
    "commit_split": True,
    "splits.resolve": True,
}
# A hold that nobody ends is given up after this, and not after 30 s.
_ENDED = """
import os, signal
from mqservice.accounts import shard_split
from mqservice.shards import splits
splits.HELD_MS_MAX = 10_000
owner = shard_split
*path, name = {step!r}.split(".")
for part in path:
    owner = getattr(owner, part)
was = getattr(owner, name)
def then_ended(*args, **more):
    was(*args, **more)
    {end}
setattr(owner, name, then_ended)
shard_split.split_shard({source!r}, {target!r}, ["demo"], say=lambda done, total: None)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("split") / "data"
    with running_service(directory, MQ_SHARDS="main,s2", MQ_WEB_WORKERS="2") as service:
        yield service


def split(service: Service, source: str, target: str, *more: str) -> dict[str, Any]:
    """What the command says."""
    done = run_mqservice(
        service.data_dir,
        *("shard", "split", source, target, "--namespace", "demo", "-o", "json", *more),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def engine(service: Service, shard: str) -> StoreClient:
    path = service.data_dir / "run" / ("engine.sock" if shard == "main" else f"{shard}.sock")
    return StoreClient(str(path), client_name="test")


def has_topic(service: Service, shard: str, topic: str) -> bool:
    with engine(service, shard) as client:
        return f"demo%{topic}" in {each.topic for each in client.topic_list().topics}


def home(service: Service) -> str:
    (found,) = [name for name, row in listed_shards(service.data_dir).items() if row["namespaces"]]
    return found


@pytest.fixture
def api(service: Service) -> Iterator[httpx.Client]:
    with api_of(service) as client:
        yield client


class Watched:
    """Clients of one topic and group, and what they saw."""

    def __init__(self, service: Service, name: str, signals: Signals) -> None:
        self.name, self.history = name, History()
        self._service = service
        facts = msgspec.structs.replace(service.facts, topic=name, group=name)
        make_topic_and_group(facts, name, GROUPS[name])
        seed = SEED
        self._producers = [
            WatchingProducer(f"{name}-p{n}", facts, self.history, seed) for n in range(2)
        ]
        late = WatchingProducer(f"{name}-late", facts, self.history, seed)
        late.delay_s = 3
        late.pause_s = 0.5
        self._producers.append(late)
        sockets = [
            WatchingSocketConsumer(f"{name}-socket{n}", facts, self.history, seed) for n in range(2)
        ]
        rest = WatchingRestConsumer(f"{name}-rest", facts, self.history, seed)
        for producer in self._producers:
            producer.signals = signals
        for socket in sockets:
            socket.signals = signals
        rest.signals = signals
        self._consumers: Sequence[Client] = [*sockets, rest]

    @property
    def accepted_count(self) -> int:
        return len(self.history.of(Accepted))

    def start(self) -> None:
        for client in (*self._producers, *self._consumers):
            client.start()
        wait_until(lambda: self.accepted_count > 100, 120, f"{self.name} has load")

    def finish(self, since_s: float, until_s: float) -> Verdict:
        """Leases of before the move ended somewhere in this time."""
        count = self.accepted_count
        wait_until(lambda: self.accepted_count > count + 50, 60, f"{self.name} is taken again")
        for producer in self._producers:
            producer.stop()
            producer.join(60)
        facts = self._service.facts
        wait_until(self._has_no_scheduled, 60, f"all scheduled messages of {self.name} are due")
        wait_until(lambda: is_drained(facts, self.name), DRAIN_WAIT_S, f"{self.name} is consumed")
        for client in self._consumers:
            client.stop()
            client.join(60)
        failures = [each.failure for each in (*self._producers, *self._consumers)]
        assert failures == [None] * len(failures)
        kills = killed_within("engine", since_s, until_s)
        self.history.events = sorted([*self.history.events, *kills], key=lambda each: each.at)
        return judge(self.history, is_ordered=self.name == "ordered")

    def _has_no_scheduled(self) -> bool:
        facts = self._service.facts
        path = f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{self.name}/scheduled"
        headers = {"authorization": f"Bearer {facts.api_key}"}
        answer = httpx.get(path, headers=headers, timeout=60, trust_env=False)
        found: list[object] = answer.json()["messages"]
        return not found


class Changing(threading.Thread):
    """Makes one topic after the other until it is stopped."""

    def __init__(self, service: Service) -> None:
        super().__init__(name="changing")
        self._service = service
        self._is_over = threading.Event()
        self.answers: list[httpx.Response] = []

    def run(self) -> None:
        with api_of(self._service) as api:
            while not self._is_over.wait(0.02):
                name = f"changed-{len(self.answers)}"
                self.answers.append(api.put(f"topics/{name}", json={"queues": 1}))

    def stop(self) -> list[str]:
        """The topics that were confirmed."""
        self._is_over.set()
        self.join(60)
        # It may have been on its way when the engine began to refuse; nobody promises more.
        others = [each for each in self.answers if each.status_code != 201]
        assert all("retry-after" in each.headers for each in others), [each.text for each in others]
        print(f"{len(self.answers)} topics made, {len(others)} refused")
        return [each.json()["name"] for each in self.answers if each.status_code == 201]


@pytest.mark.sized
def test_a_namespace_moves_under_load_with_everything_it_has(
    service: Service, api: httpx.Client
) -> None:
    # given a namespace with a dead letter, a key, a scheduled message, a lease, and clients
    for name in ("kept", "quiet"):
        assert api.put(f"topics/{name}", json={"queues": 1}).status_code == 201
        assert api.put(f"groups/{name}", json={}).status_code == 201
    first = api.post("topics/kept/messages", json={"body": "once"}, headers=KEY).json()
    api.post("topics/kept/messages", json={"body": "far", "delay": "1h"})
    (bad,) = api.post("topics/kept/groups/kept:receive", json={}).json()["messages"]
    dead = {"dead_letter": [{"receipt": bad["receipt"], "reason": "broken"}]}
    assert api.post("groups/kept:settle", json=dead).json()["dead_lettered"] == 1
    api.post("topics/quiet/messages", json={"body": "leased"})
    (leased,) = api.post("topics/quiet/groups/quiet:receive", json={"lease": "10m"}).json()[
        "messages"
    ]
    signals = Signals()
    groups = [*GROUPS][-sized(1, torture=2) :]  # the ordered one shows the most
    watched = [Watched(service, name, signals) for name in groups]
    for each in watched:
        each.start()

    # when it moves
    plan = split(service, "main", "s2", "--dry-run")
    assert (plan["namespaces"], plan["dead_letters"]) == (["demo"], 1)
    assert plan["messages"] > 100 * len(groups)
    assert plan["scheduled"] >= 1
    assert plan["free_bytes"] > plan["copied_bytes"] > 0
    assert home(service) == "main"
    changing = Changing(service)
    changing.start()
    done = split(service, "main", "s2")
    ended_s = time.monotonic()
    print(f"requests waited {done['held_ms']} ms at most")

    # then clients have seen nothing but a pause
    for each in watched:
        verdict = each.finish(ended_s - done["held_ms"] / 1_000 - 4, ended_s)
        print(f"{each.name}: {verdict.accepted_count} accepted, again {dict(verdict.explained)}")
        assert verdict.violations == {}
    print(f"signals: {dict(signals.seen)}")
    assert signals.forbidden == []
    assert not [name for name in signals.seen if name.startswith("close")]

    # and everything is at the other shard, and only there
    rows = listed_shards(service.data_dir)
    assert (rows["main"]["namespaces"], rows["s2"]["namespaces"]) == (0, 1)
    assert [has_topic(service, name, "kept") for name in ("main", "s2")] == [False, True]
    changed = changing.stop()
    assert changed
    with engine(service, "s2") as client:
        there = {each.topic for each in client.topic_list().topics}
    assert {f"demo%{name}" for name in changed} <= there
    assert {each["name"] for each in api.get("topics?limit=1000").json()["topics"]} >= set(changed)
    again = api.post("topics/kept/messages", json={"body": "once"}, headers=KEY)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    letters = api.get("groups/kept/dlq").json()["messages"]
    assert [each["id"] for each in letters] == [first["id"]]
    scheduled = api.get("scheduled").json()["messages"]
    assert [each["body"] for each in scheduled if each["topic"] == "kept"] == ["far"]
    settled = api.post("groups/quiet:settle", json={"ack": [leased["receipt"]]})
    assert settled.json()["acked"] == 1, settled.text
    assert api.get("groups/quiet").json()["lag"]["total"] == 0


def end_at(
    service: Service, step: str, source: str, target: str, *, end: str
) -> subprocess.CompletedProcess[str]:
    """``end``: a statement that follows the step."""
    env = environment_of({**service_environment(service.data_dir)}, service.data_dir)
    program = _ENDED.format(step=step, source=source, target=target, end=end)
    return subprocess.run(
        [sys.executable, "-m", "django", "shell", "--no-imports", "-c", program],
        env={**env, "DJANGO_SETTINGS_MODULE": "mqservice.settings"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def kill_at(service: Service, step: str, source: str, target: str) -> None:
    end = "os.kill(os.getpid(), signal.SIGKILL)"
    done = end_at(service, step, source, target, end=end)
    assert done.returncode == -9, done.stderr


@pytest.mark.torture
def test_an_attempt_that_fails_leaves_no_copy_on_the_disk(service: Service) -> None:
    source = home(service)
    target = "s2" if source == "main" else "main"
    end = "raise RuntimeError('it fails here')"
    done = end_at(service, "PartProgram.finish", source, target, end=end)
    assert "it fails here" in done.stderr
    assert home(service) == source
    assert not list(service.data_dir.rglob("store.incoming*"))


@pytest.mark.torture
def test_whoever_is_killed_leaves_one_shard_that_serves(
    service: Service, api: httpx.Client
) -> None:
    """After each kill the namespace takes messages again, and the command can be run again."""
    if api.get("topics/killed").status_code == 404:
        api.put("topics/killed", json={"queues": 1})
        api.put("groups/killed", json={})
    chosen = [*STEPS][:: sized(3, torture=1)]
    number = 0

    def send() -> bool:
        nonlocal number
        sent = api.post("topics/killed/messages", json={"body": str(number)})
        assert sent.status_code in (201, 503), sent.text
        number += sent.status_code == 201
        return sent.status_code == 201

    for step in chosen:
        source = home(service)
        target = "s2" if source == "main" else "main"
        wait_until(send, 60, "a message is taken before")
        kill_at(service, step, source, target)
        wait_until(send, 60, f"a message is taken after a kill at {step}")
        is_moved = STEPS[step]
        assert home(service) == (target if is_moved else source), step
        if is_moved:
            wait_until(
                lambda at=source: not has_topic(service, at, "killed"),  # type: ignore[misc]  # bound
                60, "the source has deleted it",
            )  # fmt: skip
        else:
            wait_until(
                lambda at=target: not has_topic(service, at, "killed"),  # type: ignore[misc]  # bound
                60, f"the target has deleted what it has after a kill at {step}",
            )  # fmt: skip
            split(service, source, target)
            assert home(service) == target
        wait_until(send, 60, "a message is taken afterwards")
    bodies: list[str] = []
    while len(bodies) < number:
        got = api.post("topics/killed/groups/killed:receive", json={"max": 100, "wait": "10s"})
        messages = got.json()["messages"]
        assert messages, f"{len(bodies)} of {number} are there"
        api.post("groups/killed:settle", json={"ack": [each["receipt"] for each in messages]})
        bodies += [each["body"] for each in messages]
    assert bodies == [str(each) for each in range(number)]
