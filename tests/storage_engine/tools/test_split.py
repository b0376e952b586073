"""A part of a running engine's store becomes another shard's: what it has, and what it has not."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from storage_engine.client import (
    DeadLettersRequest,
    GroupConfig,
    LeaseRef,
    Nack,
    NamespaceDropRequest,
    NamespaceHoldRequest,
    NamespaceReleaseRequest,
    Received,
    ReceiveRequest,
    ScheduledListRequest,
    SettleRequest,
    StoreAdoptRequest,
    StoreClient,
    StoreDiscardRequest,
    StoreError,
    TopicConfig,
    encode_record,
)
from storage_engine.clock import SystemClock
from storage_engine.config import ENV_PREFIX, config_from_env
from storage_engine.disk.adopted_store import (
    exchange,
    incoming_path,
    split_number_of,
    write_discarded_number,
    write_split_number,
)
from storage_engine.disk.files import Files
from storage_engine.errors import BadRequest
from storage_engine.tools.backup import take_backup
from storage_engine.tools.program_lines import Line, ProgressLine, encode_line
from storage_engine.tools.split.copy_room import plan_copy
from storage_engine.tools.split.protocol_lines import (
    CopyRound,
    Discard,
    Finish,
    PartDone,
    RoundDone,
)
from storage_engine.tools.split.store_copy import StoreCopy
from storage_engine.wire.topics import TopicRef
from tests.engine import engine_starter
from tests.storage_engine.dedup.test_idempotent_puts import marked
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import END_WAIT_S, Engine
from tests.storage_engine.schedule.delaying import delayed
from tests.storage_engine.tools.test_backup import serious_findings

NAMES = ("acme", "rival")


class Program:
    """The tool, for a namespace ``acme`` of ``source`` that goes to ``target``. ``last_number``:
    of the split that the target came from.
    """

    def __init__(
        self, source: Engine, target: Engine, number: int, *, last_number: int | None = None
    ) -> None:
        from_test, to_program = os.pipe()
        from_program, to_test = os.pipe()
        with source.log.open("ab") as errors:
            self._process = engine_starter().start(
                "storage_engine.tools.split.__main__:main",
                "storage_engine.tools.split",
                str(source.store_dir),
                str(target.store_dir),
                f"--socket={source.socket}",
                "--shard=s2",
                f"--number={number}",
                "--namespace=acme",
                *([] if last_number is None else [f"--after={last_number}"]),
                environ=source._environment,
                directory=source.directory,
                standard=(from_test, to_test, errors.fileno()),
            )
        os.close(from_test)
        os.close(to_test)
        self._orders = os.fdopen(to_program, "wb", buffering=0)
        self._lines = os.fdopen(from_program, "rb")

    def tell(self, order: Line) -> None:
        self._orders.write(encode_line(order))

    def ask(self, order: Line) -> RoundDone | PartDone:
        self.tell(order)
        while True:
            text = self._lines.readline()
            line: Line = msgspec.json.decode(text, type=ProgressLine | RoundDone | PartDone)
            if isinstance(line, RoundDone | PartDone):
                return line

    def end(self) -> int:
        self._orders.close()
        with self._lines:
            self._lines.read()
        return self._process.wait(END_WAIT_S)

    def kill(self) -> None:
        if not self._lines.closed:
            self._process.kill()
            self.end()


class Pair(NamedTuple):
    source: Engine
    target: Engine
    programs: list[Program]

    def program(self, number: int = 5) -> Program:
        program = Program(self.source, self.target, number)
        self.programs.append(program)
        return program


@pytest.fixture(params=["alone", pytest.param("replicated", marks=pytest.mark.torture)])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two engines; that of the main shard has a topic and a group of each namespace."""
    limits = {}
    if request.param == "replicated":
        (tmp_path / "log").mkdir()
        limits = {
            "MQ_ENGINE_REPLICATED_LOG": (tmp_path / "log").as_uri(),
            "MQ_ENGINE_REPLICATION_INTERVAL_MS": "50",
            "MQ_ENGINE_SNAPSHOT_LOG_ENTRIES": "15",
        }
    with Engine(**limits) as source, Engine(MQ_ENGINE_SHARD="s2", **limits) as target:
        with source.client() as client:
            for name in NAMES:
                client.topic_put(TopicConfig(topic=f"{name}%t", queue_count=1))
                client.group_put(GroupConfig(group=f"{name}%g", max_reconsume_times=2))
        pair = Pair(source, target, [])
        yield pair
        for program in pair.programs:
            program.kill()


def put(client: StoreClient, name: str, *bodies: bytes) -> None:
    records = [encode_record(message(body, topic=f"{name}%t")) for body in bodies]
    assert [each.error for each in client.put(records)] == [None] * len(bodies)


def receive(client: StoreClient, name: str, count: int = 100, wait_ms: int = 0) -> Received:
    return client.receive(
        ReceiveRequest(
            group=f"{name}%g", topic=f"{name}%t", member_id="m", messages_max=count,
            bytes_max=1 << 20, wait_ms=wait_ms, lease_ms=60_000,
        )
    )  # fmt: skip


def ack(client: StoreClient, name: str, received: Received, *queue_offsets: int) -> list[int]:
    """Codes of those that failed."""
    ref = LeaseRef(
        topic=f"{name}%t", queue_id=0, lease_generation=received.head.lease_generation,
        queue_offsets=list(queue_offsets),
    )  # fmt: skip
    reply = client.settle(SettleRequest(group=f"{name}%g", acks=[ref]))
    return [each.code for each in reply.failures]


def nack(client: StoreClient, name: str, received: Received, at: int, **how: object) -> None:
    one = Nack(
        topic=f"{name}%t", queue_id=0, lease_generation=received.head.lease_generation,
        queue_offset=received.records[at].queue_offset, **how,  # type: ignore[arg-type]  # by name
    )  # fmt: skip
    assert client.settle(SettleRequest(group=f"{name}%g", nacks=[one])).failures == []


def bodies_of(received: Received) -> list[bytes]:
    return [record.body for record in received.records]


def moved(pair: Pair, program: Program, *, number: int = 5) -> PartDone:
    """Hold, finish, adopt; on return the target serves it."""
    with pair.source.client() as client:
        client.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=number))
    done = program.ask(Finish())
    assert isinstance(done, PartDone)
    assert program.end() == 0
    with pair.target.client() as client:
        client.store_adopt(StoreAdoptRequest(number=number))
    wait_for_split(pair.target, number)
    return done


def wait_for_split(engine: Engine, number: int) -> None:
    pause = threading.Event()
    for _ in range(3_000):
        with contextlib.suppress(StoreError), engine.client() as client:
            if client.namespace_holds().split_number == number:
                return
        pause.wait(0.01)
    raise AssertionError(f"the store was not adopted:\n{engine.log.read_text()}")


def names_of(client: StoreClient) -> list[str]:
    topics = [each.topic for each in client.topic_list().topics if "%" in each.topic]
    return sorted([*topics, *(each.group for each in client.group_list().groups)])


def test_everything_of_a_namespace_is_there_and_nothing_else(pair: Pair) -> None:
    program = pair.program()
    with pair.source.client() as client:
        for name in NAMES:
            put(client, name, b"acked", b"settled above", b"leased", b"dead", b"retried")
        assert isinstance(program.ask(CopyRound()), RoundDone)
        for name in NAMES:
            got = receive(client, name)
            assert ack(client, name, got, 0, 1) == []
            nack(client, name, got, 3, is_dead=True)
            nack(client, name, got, 4, delay_ms=60_000)
            put(client, name, b"new")
            client.put([encode_record(delayed(b"later", delay_ms=90_000, topic=f"{name}%t"))])
        once = client.put_once([marked("key", topic="acme%t")])
        assert isinstance(program.ask(CopyRound()), RoundDone)
    done = moved(pair, program)
    assert (done.topic_count, done.group_count) == (3, 1)
    with pair.target.client() as client:
        assert names_of(client) == ["%DLQ%acme%g", "%RETRY%acme%g", "acme%g", "acme%t"]
        assert bodies_of(receive(client, "acme")) == [b"leased", b"new", b"a"]
        (letters,) = client.dead_letters(DeadLettersRequest(groups=["acme%g"])).counts
        assert letters.count == 1
        listing = ScheduledListRequest(
            topic="acme", is_namespace=True, messages_max=10, bytes_max=1 << 20
        )
        _, waiting = client.scheduled_list(listing)
        assert [record.body for record in waiting] == [b"later"]
        again = client.put_once([marked("key", topic="acme%t")])
        assert again == [msgspec.structs.replace(once[0], is_duplicate=True)]
        with pytest.raises(StoreError):
            client.topic_stats(TopicRef(topic="rival%t"))
    with pair.source.client() as client:
        client.namespace_drop(NamespaceDropRequest(number=5))
        assert names_of(client) == ["%DLQ%rival%g", "%RETRY%rival%g", "rival%g", "rival%t"]
        assert bodies_of(receive(client, "rival")) == [b"new"]
    assert pair.target.stop() == 0
    assert serious_findings(pair.target.store_dir) == []


def test_a_receipt_from_before_the_move_settles_what_nobody_has_leased_since(pair: Pair) -> None:
    with pair.source.client() as client:
        put(client, "acme", b"one", b"two")
        before = receive(client, "acme")
    program = pair.program()
    moved(pair, program)
    with pair.target.client() as client:
        assert ack(client, "acme", before, 0) == []
        assert bodies_of(receive(client, "acme")) == [b"two"]
        assert ack(client, "acme", before, 1) != []


def test_what_is_scheduled_and_retried_comes_at_the_target_and_only_there(pair: Pair) -> None:
    with pair.source.client() as client:
        put(client, "acme", b"retried")
        nack(client, "acme", receive(client, "acme"), 0, delay_ms=1_500)
        client.put([encode_record(delayed(b"later", delay_ms=1_500, topic="acme%t"))])
        client.put([encode_record(delayed(b"theirs", delay_ms=1_500, topic="rival%t"))])
    program = pair.program()
    moved(pair, program)
    with pair.target.client() as client:
        got: list[bytes] = []
        while len(got) < 2:
            found = bodies_of(receive(client, "acme", wait_ms=20_000))
            assert found, "nothing came within 20 s"
            got += found
        assert sorted(got) == [b"later", b"retried"]
    with pair.source.client() as client:
        assert bodies_of(receive(client, "rival", wait_ms=20_000)) == [b"theirs"]


def test_offsets_go_on_and_a_restart_changes_nothing(pair: Pair) -> None:
    with pair.source.client() as client:
        put(client, "acme", *[b"%d" % number for number in range(300)])
        put(client, "rival", *[b"x" * 900 for _ in range(300)])
        ack(client, "acme", receive(client, "acme", 10), *range(10))
    program = pair.program()
    program.ask(CopyRound())
    moved(pair, program)
    pair.target.kill()
    pair.target.start()
    with pair.target.client() as client:
        (result,) = client.put([encode_record(message(b"next", topic="acme%t"))])
        assert result.queue_offset == 300
        got = receive(client, "acme", 300)
        assert [each.queue_offset for each in got.records] == list(range(10, 301))
        assert names_of(client) == ["acme%g", "acme%t"]


def test_all_that_was_acknowledged_under_load_is_there(pair: Pair) -> None:
    """Producers that do not stop before they are refused."""
    acknowledged: list[bytes] = []

    def produce() -> None:
        with pair.source.client() as client:
            for number in range(100_000):
                body = b"%d" % number
                record = encode_record(message(body, topic="acme%t"))
                if client.put([record])[0].error is not None:
                    return
                acknowledged.append(body)

    producer = threading.Thread(target=produce)
    program = pair.program()
    producer.start()
    for _ in range(3):
        program.ask(CopyRound())
    moved(pair, program)
    producer.join(30)
    assert not producer.is_alive()
    assert len(acknowledged) > 10
    with pair.target.client() as client:
        found: list[bytes] = []
        while got := bodies_of(receive(client, "acme", 1_000)):
            found += got
        assert set(acknowledged) - set(found) == set()
        assert found == acknowledged


def test_a_program_that_is_killed_leaves_both_shards_as_they_are(pair: Pair) -> None:
    with pair.source.client() as client:
        put(client, "acme", b"one")
    program = pair.program()
    program.ask(CopyRound())
    program.kill()
    with pair.target.client() as client, pytest.raises(StoreError, match="not the store of split"):
        client.store_adopt(StoreAdoptRequest(number=5))
    with pair.source.client() as client:
        assert bodies_of(receive(client, "acme")) == [b"one"]
    again = pair.program(6)
    moved(pair, again, number=6)
    with pair.target.client() as client:
        assert bodies_of(receive(client, "acme")) == [b"one"]


@pytest.mark.parametrize("pair", ["alone"], indirect=True)
def test_the_log_is_held_for_as_long_as_an_upload_of_the_copy_takes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_backup, "_RENEW_AFTER_NS", 0)
    made = {"STORE_DIR": str(incoming_path(pair.target.store_dir)), "SHARD": "s2"}
    config = config_from_env({ENV_PREFIX + name: value for name, value in made.items()})
    with pair.source.client() as client:
        put(client, "acme", b"one")
        copy = StoreCopy(
            pair.source.store_dir, config, client, Files(), SystemClock(), say=lambda *_: None
        )
        copy.copy()
        held = copy._held.taken
        assert list(copy.steps(0)) == [copy.end_offset]
        assert copy._held.taken.snapshot_id != held.snapshot_id
        assert list(copy.steps(copy.end_offset)) == []
        copy.close()


@pytest.mark.parametrize("pair", ["alone"], indirect=True)
@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_copy_that_nobody_is_to_have_is_deleted(pair: Pair, is_discarded: bool) -> None:
    program = pair.program()
    assert isinstance(program.ask(Finish()), PartDone)
    if is_discarded:
        program.tell(Discard(is_in_log=False))
    assert program.end() == 0
    names = {path.name for path in pair.target.directory.glob("store*")}
    assert names == ({"store"} if is_discarded else {"store", "store.incoming"})


@pytest.mark.parametrize("pair", ["alone"], indirect=True)
def test_a_copy_that_is_given_up_before_it_is_ready_is_deleted(pair: Pair) -> None:
    """As where the old shard's engine does not take the hold."""
    program = pair.program()
    program.ask(CopyRound())
    program.tell(Discard(is_in_log=False))
    assert program.end() == 1
    assert [path.name for path in pair.target.directory.glob("store*")] == ["store"]


def give_up(pair: Pair, number: int) -> None:
    """The source serves it on, and the target is to have nothing of it."""
    with pair.source.client() as client:
        client.namespace_release(NamespaceReleaseRequest(number=number))
    with pair.target.client() as client:
        client.store_discard(StoreDiscardRequest(namespaces=["acme"], number=number))


def test_a_namespace_of_the_same_name_finds_nothing_of_an_attempt_that_was_given_up(
    pair: Pair,
) -> None:
    with pair.source.client() as client:
        put(client, "acme", b"theirs")
        client.put([encode_record(delayed(b"later", delay_ms=90_000, topic="acme%t"))])
    moved(pair, pair.program())
    give_up(pair, 5)
    with pair.target.client() as client:
        assert names_of(client) == []
        client.topic_put(TopicConfig(topic="acme%t", queue_count=1))
        client.group_put(GroupConfig(group="acme%g"))
        assert bodies_of(receive(client, "acme")) == []
        put(client, "acme", b"ours")
        assert bodies_of(receive(client, "acme")) == [b"ours"]
        listing = ScheduledListRequest(
            topic="acme", is_namespace=True, messages_max=10, bytes_max=1 << 20
        )
        assert client.scheduled_list(listing)[1] == []
        # Whoever says it again does not know what has come since.
        client.store_discard(StoreDiscardRequest(namespaces=["acme"], number=5))
        assert names_of(client) == ["acme%g", "acme%t"]
    with pair.source.client() as client:
        assert bodies_of(receive(client, "acme")) == [b"theirs"]
    pair.target.kill()
    pair.target.start()
    with pair.target.client() as client:
        client.store_discard(StoreDiscardRequest(namespaces=["acme"], number=5))
        assert names_of(client) == ["acme%g", "acme%t"]


def test_a_store_that_is_ready_after_it_was_given_up_is_not_adopted(pair: Pair) -> None:
    program = pair.program()
    with pair.source.client() as client:
        client.namespace_hold(NamespaceHoldRequest(namespaces=["acme"], number=5))
    give_up(pair, 5)
    assert isinstance(program.ask(Finish()), PartDone)
    assert program.end() == 0
    with pair.target.client() as client:
        with pytest.raises(StoreError, match="too late"):
            client.store_adopt(StoreAdoptRequest(number=5))
        assert names_of(client) == []
    moved(pair, pair.program(6), number=6)


def test_an_attempt_that_follows_replaces_the_store_of_the_one_before(pair: Pair) -> None:
    moved(pair, pair.program())
    give_up(pair, 5)
    with pair.source.client() as client:
        put(client, "acme", b"since")
    give_up(pair, 6)  # it never came so far
    moved(pair, pair.program(7), number=7)
    with pair.target.client() as client:
        assert bodies_of(receive(client, "acme")) == [b"since"]
    assert [path.name for path in pair.target.directory.glob("store*")] == ["store"]


def _store(path: Path, number: int = 0) -> Path:
    (path / "config").mkdir(parents=True)
    (path / "config" / "topics.json").write_text("{}")
    if number:
        write_split_number(Files(), path, number)
    return path


def test_a_store_with_topics_is_moved_aside(tmp_path: Path) -> None:
    store = _store(tmp_path / "store")
    _store(incoming_path(store), 3)
    exchange(Files(), store, number=3)
    assert split_number_of(store) == 3
    assert (tmp_path / "store.aside-3" / "config" / "topics.json").exists()


def test_a_store_of_another_attempt_is_not_adopted(tmp_path: Path) -> None:
    store = _store(tmp_path / "store")
    _store(incoming_path(store), 3)
    with pytest.raises(BadRequest):
        exchange(Files(), store, number=4)
    assert split_number_of(store) == 0


def test_a_store_that_was_given_up_while_the_engine_stopped_is_not_adopted(tmp_path: Path) -> None:
    store = _store(tmp_path / "store")
    _store(incoming_path(store), 3)
    write_discarded_number(Files(), store, 3)
    with pytest.raises(BadRequest, match="too late"):
        exchange(Files(), store, number=3)
    assert (split_number_of(store), (store / "config" / "topics.json").exists()) == (0, True)


def test_what_an_attempt_before_has_left_counts_as_free(tmp_path: Path) -> None:
    """It is deleted before the next one begins, and may have filled the disk."""
    store, target = tmp_path / "one", tmp_path / "two"
    for directory in (store, target, incoming_path(target)):
        directory.mkdir()

    class FullDisk(Files):
        def disk_usage(self, path: Path) -> tuple[int, int]:
            return 1 << 40, 0

    (store / "file").write_bytes(b"x" * 1_000_000)
    (incoming_path(target) / "file").write_bytes(b"x" * 2_000_000)
    plan = plan_copy(store, target, FullDisk())
    assert 1_000_000 <= plan.local_bytes < 1_100_000
    assert 2_000_000 <= plan.free_bytes < 2_100_000
    assert (plan.fetched_bytes, plan.has_room) == (0, False)
