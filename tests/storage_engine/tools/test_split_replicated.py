"""A namespace moves between shards that have a replicated log: what the other machines of the
target find, whatever is lost on the way.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from storage_engine.client import (
    Durability,
    GroupConfig,
    NamespaceHoldRequest,
    StoreAdoptRequest,
    StoreClient,
    StoreDiscardRequest,
    StoreError,
    TopicConfig,
    encode_record,
)
from storage_engine.disk.adopted_store import incoming_path
from storage_engine.disk.files import Files
from storage_engine.disk.layout import BUCKET_DIR
from storage_engine.errors import NamespaceMoved
from storage_engine.log.bucket_files import bucket_offsets
from storage_engine.tools.split.__main__ import main
from storage_engine.tools.split.protocol_lines import CopyPlan, CopyRound, Discard, Finish
from storage_engine.tools.split.store_copy import StoreCopy
from tests.sizes import sized
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import READY_TRIES
from tests.storage_engine.replication.takeovers import Shard
from tests.storage_engine.tools.test_backup import serious_findings
from tests.storage_engine.tools.test_split import (
    NAMES,
    Pair,
    Program,
    bodies_of,
    moved,
    names_of,
    put,
    receive,
    wait_for_split,
)

BODIES = [b"%d " % number * 300 for number in range(300)]
LEAVING = {
    "MQ_ENGINE_SEGMENT_BYTES": "65536",
    "MQ_ENGINE_LOCAL_RETENTION_BYTES": "131072",
    "MQ_ENGINE_LOCAL_CACHE_BYTES": "1048576",
    "MQ_ENGINE_RETENTION_INTERVAL_MS": "50",
}
# The bucket keeps what was split off until its snapshots have it.
WITHOUT_SNAPSHOTS = {"MQ_ENGINE_SNAPSHOT_LOG_ENTRIES": "1000000"}
KILLS = sized(2, torture=40)


class Machines(Pair):
    """Both shards have machines of their own, and one log."""

    source: Shard
    target: Shard


@pytest.fixture
def machines(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machines]:
    """As ``test_split.pair``, with a backlog. ``param``: limits of the engines."""
    (tmp_path / "log").mkdir()
    log = {"MQ_ENGINE_REPLICATED_LOG": (tmp_path / "log").as_uri()}
    log |= getattr(request, "param", {})
    with Shard(**log) as source, Shard(**log, MQ_ENGINE_SHARD="s2") as target:
        with source.client() as client:
            for name in NAMES:
                client.topic_put(
                    TopicConfig(topic=f"{name}%t", queue_count=1, durability=Durability.REPLICATED)
                )
                client.group_put(GroupConfig(group=f"{name}%g"))
            for at in range(0, len(BODIES), 50):
                put(client, "acme", *BODIES[at : at + 50])
            put(client, "rival", b"theirs")
        machines = Machines(source, target, [])
        yield machines
        for program in machines.programs:
            program.kill()


def everything(client: StoreClient, name: str = "acme") -> list[bytes]:
    found: list[bytes] = []
    while got := bodies_of(receive(client, name, 1_000)):
        found += got
    return found


def loses_its_machine(shard: Shard) -> None:
    """The disk too; whoever followed is the owner then, or one with an empty disk."""
    shard.kill()
    if shard._replica is None:
        shard.choose_empty_disk()
    shard.hand_to_replica()
    shard.start()


@pytest.mark.parametrize("has_replica", [pytest.param(True, marks=pytest.mark.torture), False])
def test_another_machine_has_what_was_split_off(machines: Machines, has_replica: bool) -> None:
    target = machines.target
    if has_replica:
        target.follow()
    moved(machines, machines.program())
    with target.client() as client:
        put(client, "acme", b"since")
    loses_its_machine(target)
    with target.client() as client:
        assert client.namespace_holds().split_number == 5
        assert names_of(client) == ["acme%g", "acme%t"]
        assert everything(client) == [*BODIES, b"since"]
    assert target.stop() == 0
    assert serious_findings(target.store_dir) == []


@pytest.mark.torture
def test_the_bucket_keeps_what_was_split_off_until_its_snapshots_have_it(
    machines: Machines,
) -> None:
    target = machines.target
    moved(machines, machines.program())
    splits = Path(target._environment["MQ_ENGINE_REPLICATED_LOG"].removeprefix("file://"))
    splits = splits / "snapshots" / "s2" / "splits"

    def left() -> list[Path]:
        return [path for path in splits.rglob("*") if path.is_file()]

    assert left()
    with target.client() as client:
        for number in range(READY_TRIES):
            if not left():
                break
            put(client, "acme", b"since %d" % number)  # an entry or more: then a snapshot is due
        count = number
    assert not left(), target.log.read_text()[-6000:]
    loses_its_machine(target)
    with target.client() as client:
        assert everything(client) == [*BODIES, *[b"since %d" % each for each in range(count)]]


def test_a_hold_is_known_to_the_next_owner(machines: Machines) -> None:
    source = machines.source
    with source.client() as client:
        client.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=5))
    loses_its_machine(source)
    with source.client() as client:
        (result,) = client.put([encode_record(message(b"x", topic="acme%t"))])
        assert isinstance(result.error, NamespaceMoved)
        put(client, "rival", b"served")


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_target_that_is_killed_while_it_begins_anew_has_all_or_nothing(
    machines: Machines, is_lost: bool
) -> None:
    """``is_lost``: with its disk."""
    target, draw = machines.target, random.Random(7)
    program = machines.program()
    program.ask(CopyRound())
    with machines.source.client() as client:
        client.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=5))
    program.ask(Finish())
    assert program.end() == 0
    for _ in range(KILLS):
        with contextlib.suppress(StoreError), target.client() as client:
            client.store_adopt(StoreAdoptRequest(number=5))
        threading.Event().wait(draw.random() * 0.7)
        if is_lost:
            loses_its_machine(target)
            break
        target.kill()
        target.start()
    with target.client() as client:
        is_adopted = client.namespace_holds().split_number == 5
    if not is_adopted and not is_lost:
        with target.client() as client:
            client.store_adopt(StoreAdoptRequest(number=5))
        wait_for_split(target, 5)
        is_adopted = True
    with target.client() as client:
        assert names_of(client) == (["acme%g", "acme%t"] if is_adopted else [])
        if is_adopted:
            assert everything(client) == BODIES
            put(client, "acme", b"since")


def leave_segments(source: Shard) -> None:
    """Until the bucket alone has some."""
    with source.client() as client:
        for _ in range(READY_TRIES):
            if len(bucket_offsets(source.store_dir)) > 2:
                break
            put(client, "rival", b"an entry")  # then a snapshot is due, which has more of them
            threading.Event().wait(0.02)
    assert len(bucket_offsets(source.store_dir)) > 2


@pytest.mark.parametrize("machines", [LEAVING], indirect=True)
def test_segments_that_only_the_bucket_has_move_as_well(machines: Machines) -> None:
    leave_segments(machines.source)
    moved(machines, machines.program())
    loses_its_machine(machines.target)
    with machines.target.client() as client:
        assert everything(client) == BODIES


@pytest.mark.parametrize("machines", [LEAVING], indirect=True)
def test_room_for_segments_that_only_the_bucket_has_is_looked_for_before_they_are_fetched(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = machines.source, machines.target
    for name, value in source._environment.items():
        monkeypatch.setenv(name, value)
    places = [str(source.store_dir), str(target.store_dir), f"--socket={source.socket}"]
    leave_segments(source)

    def plan() -> CopyPlan:
        assert main([*places, "--shard=s2", "--plan"]) == 0
        return msgspec.json.decode(capfd.readouterr().out, type=CopyPlan)

    # given a plan that counts them, and none of what the cache has of them
    found = plan()
    assert found.fetched_bytes >= len(bucket_offsets(source.store_dir)) * 65_536
    assert found.local_bytes >= 65_536
    (source.store_dir / BUCKET_DIR / "piece").write_bytes(b"x" * 100_000_000)
    assert plan().local_bytes < found.local_bytes + 100_000_000
    # when the disk has room for all the others, then nothing is done
    total_bytes = 1 << 40
    monkeypatch.setattr(Files, "disk_usage", lambda *_: (total_bytes, found.fetched_bytes))
    begun: list[object] = []
    monkeypatch.setattr(StoreCopy, "fetch_old", lambda *_: begun.append(1))
    assert not plan().has_room
    assert main([*places, "--shard=s2", "--number=5", "--namespace=acme"]) == 1
    refusal = capfd.readouterr().err
    assert re.search(
        r"the copy needs \d+ bytes on the disk of .*, \d+ of them for segments", refusal
    )
    assert f"only {found.fetched_bytes} are free" in refusal
    assert not begun
    assert not list(target.store_dir.parent.glob("*.incoming*"))


def uploads_of(target: Shard) -> dict[int, int]:
    """How many objects the bucket has of each split that was made for it."""
    log = Path(target._environment["MQ_ENGINE_REPLICATED_LOG"].removeprefix("file://"))
    names = [path.name for path in (log / "snapshots" / "s2" / "splits").rglob("*-*")]
    return Counter(int(name.partition("-")[0]) for name in names)


def upload(target: Shard, *numbers: int) -> None:
    """As attempts that were killed have left it."""
    log = Path(target._environment["MQ_ENGINE_REPLICATED_LOG"].removeprefix("file://"))
    splits = log / "snapshots" / "s2" / "splits"
    splits.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (splits / f"{number:020}-piece").write_bytes(b"x")


def test_an_attempt_that_fails_leaves_nothing_in_the_bucket_but_what_is_not_its_own(
    machines: Machines,
) -> None:
    target = machines.target
    upload(target, 4, 6)
    program = machines.program()
    program.ask(CopyRound())
    assert uploads_of(target)[5] > 0
    assert program.end() == 1  # its caller is gone
    assert uploads_of(target) == {4: 1, 6: 1}


def test_an_attempt_that_is_given_up_before_it_is_ready_leaves_nothing_in_the_bucket(
    machines: Machines,
) -> None:
    program = machines.program()
    program.ask(CopyRound())
    program.tell(Discard(is_in_log=False))
    assert program.end() == 1
    assert uploads_of(machines.target) == {}


def test_what_killed_attempts_have_left_in_the_bucket_the_next_one_deletes(
    machines: Machines,
) -> None:
    """Nothing that the log may refer to, and nothing of a later attempt."""
    target = machines.target
    upload(target, 1, 2, 3, 4, 6)
    program = Program(machines.source, target, 5, last_number=2)
    machines.programs.append(program)
    program.ask(CopyRound())
    found = uploads_of(target)
    assert found.pop(5) > 0
    assert found == {1: 1, 2: 1, 6: 1}


@pytest.mark.parametrize("machines", [WITHOUT_SNAPSHOTS], indirect=True)
def test_what_is_in_the_log_stays_in_the_bucket_although_it_was_given_up(
    machines: Machines,
) -> None:
    """Other machines of the shard come across it there."""
    target = machines.target
    program = machines.program()
    program.ask(CopyRound())
    with machines.source.client() as client:
        client.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=5))
    program.ask(Finish())
    with target.client() as client:
        client.store_adopt(StoreAdoptRequest(number=5))
    wait_for_split(target, 5)
    with target.client() as client:
        client.store_discard(StoreDiscardRequest(namespaces=["acme"], number=5))
        assert client.namespace_holds().split_number == 5
    program.tell(Discard(is_in_log=True))
    assert program.end() == 0
    assert uploads_of(target)[5] > 0
    # whatever a later attempt is told
    again = Program(machines.source, target, 7, last_number=0)
    machines.programs.append(again)
    again.ask(CopyRound())
    assert uploads_of(target).keys() == {5, 7}
    assert again.end() == 1
    assert uploads_of(target).keys() == {5}
    loses_its_machine(target)
    with target.client() as client:
        assert client.namespace_holds().split_number == 5
        assert names_of(client) == []


def test_what_was_given_up_before_the_shard_began_with_it_leaves_the_bucket(
    machines: Machines,
) -> None:
    target = machines.target
    upload(target, 4)
    program = machines.program()
    program.ask(CopyRound())
    program.ask(Finish())
    with target.client() as client:
        client.store_discard(StoreDiscardRequest(namespaces=["acme"], number=5))
        assert client.namespace_holds().split_number == 0
    program.tell(Discard(is_in_log=False))
    assert program.end() == 0
    assert uploads_of(target) == {4: 1}
    loses_its_machine(target)
    with target.client() as client:
        assert client.namespace_holds().split_number == 0


def test_without_a_bucket_nothing_is_split_off(machines: Machines) -> None:
    source = machines.source
    source._environment["MQ_ENGINE_REPLICATED_LOG"] = "kafka://127.0.0.1:9"
    program = Program(source, machines.target, 5)
    machines.programs.append(program)
    assert program.end() == 1
    assert "SNAPSHOT_URL is not set" in source.log.read_text()
    assert not incoming_path(machines.target.store_dir).exists()
