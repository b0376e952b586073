"""A copy of a running engine's store: what it holds, what it refuses, what a start makes of it."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from storage_engine.client import (
    AsyncStoreClient,
    GroupConfig,
    LeaseRef,
    Nack,
    PutOncePlace,
    ReceiveRequest,
    SettleRequest,
    StoreClient,
    TopicConfig,
    encode_record,
)
from storage_engine.disk import small_files
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.tools.backup import file_copy
from storage_engine.tools.backup import take_backup as backup
from storage_engine.tools.backup.adopt import adopt
from storage_engine.tools.backup.file_copy import Pace, copy_file
from storage_engine.tools.backup.protocol_lines import (
    CopiedFile,
    CopyStarted,
    KnownSegment,
    StartCopy,
)
from storage_engine.tools.backup.take_backup import (
    BackupFailed,
    copy_small_files,
    take_backup,
)
from storage_engine.tools.program_lines import Line
from storage_engine.tools.verify.report import Finding
from storage_engine.tools.verify.verification import Verification
from storage_engine.wire.protocol import CheckpointReply
from tests.storage_engine.dedup.test_idempotent_puts import marked
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import Engine, engine_with_topic, pull_all

GROUP = "g"


def copy_of(
    engine: Engine,
    target: Path,
    *,
    client: StoreClient | None = None,
    known: list[KnownSegment] | None = None,
) -> list[Line]:
    """Take a copy; what was said on the way."""
    said: list[Line] = []
    target.mkdir()
    with contextlib.ExitStack() as stack:
        asked = client or stack.enter_context(engine.client())
        go = StartCopy(known=known or [])
        take_backup(
            engine.store_dir, target, asked, say=said.append, wait_for_go=lambda: go, pace=Pace()
        )
    return said


def files_of(said: list[Line]) -> list[CopiedFile]:
    return [line for line in said if isinstance(line, CopiedFile)]


def serious_findings(copy: Path, *, end_offset: int | None = None) -> list[Finding]:
    """All but that there are neither consume queues nor index; ``end_offset``: of what is read."""
    check = Verification(copy, index_slots=64)
    for _ in check.run():
        pass
    assert end_offset in (None, check.report.verified_offset)
    derived = ("queue_file_", "index_")
    return [each for each in check.report.findings if not each.kind.startswith(derived)]


@contextlib.contextmanager
def started(copy: Path) -> Iterator[Engine]:
    """An engine on what was copied."""
    engine = Engine()
    adopt(copy)
    shutil.move(copy, engine.store_dir)
    with engine:
        yield engine


def put(client: StoreClient, *bodies: bytes) -> None:
    results = client.put([encode_record(message(body)) for body in bodies])
    assert [result.error for result in results] == [None] * len(bodies)


def receive(
    client: StoreClient, count: int = 100, wait_ms: int = 0
) -> tuple[int, dict[int, bytes]]:
    """The lease's generation; bodies by queue offset."""
    got = client.receive(
        ReceiveRequest(
            group=GROUP, topic="t", member_id="m", messages_max=count, bytes_max=1 << 20,
            wait_ms=wait_ms, lease_ms=60_000,
        )
    )  # fmt: skip
    bodies = {record.queue_offset: record.body for record in got.records}
    return got.head.lease_generation, bodies


def ack(client: StoreClient, generation: int, offsets: list[int]) -> None:
    ref = LeaseRef(topic="t", queue_id=0, lease_generation=generation, queue_offsets=offsets)
    reply = client.settle(SettleRequest(group=GROUP, acks=[ref]))
    assert reply.failures == []


class Load(threading.Thread):
    """Puts, receives and settles until it is stopped; what was answered before a moment."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(daemon=True)
        self._engine = engine
        self._is_stopping = threading.Event()
        self.has_begun = threading.Event()
        self.acknowledged: list[bytes] = []
        self.settled: list[bytes] = []

    def run(self) -> None:
        with self._engine.client() as client:
            number = 0
            while not self._is_stopping.is_set():
                bodies = [b"%d-%s" % (number + n, b"x" * 300) for n in range(10)]
                put(client, *bodies)
                self.acknowledged += bodies
                number += len(bodies)
                generation, got = receive(client, 5)
                ack(client, generation, list(got))
                self.settled += got.values()
                if number >= 400:
                    self.has_begun.set()

    def stop(self) -> None:
        self._is_stopping.set()
        self.join(30)


def test_a_copy_under_load_has_all_that_was_answered_before_it_began(tmp_path: Path) -> None:
    with engine_with_topic(queues=1) as engine:
        with engine.client() as client:
            client.group_put(GroupConfig(group=GROUP))
        load = Load(engine)
        load.start()
        assert load.has_begun.wait(60)
        acknowledged, settled = list(load.acknowledged), set(load.settled)
        said = copy_of(engine, tmp_path / "copy")
        load.stop()
    (taken,) = [line for line in said if isinstance(line, CopyStarted)]
    assert serious_findings(tmp_path / "copy", end_offset=taken.end_offset) == []
    with started(tmp_path / "copy") as engine, engine.client() as client:
        bodies = pull_all(client, 0)
        assert bodies[: len(acknowledged)] == acknowledged
        left: list[bytes] = []
        while got := receive(client)[1]:
            left += got.values()
        assert not settled & set(left)
        assert set(acknowledged) <= settled | set(left) | set(load.settled)
        assert len(left) == len(set(left))
        put(client, b"goes on")
        assert list(receive(client)[1].values()) == [b"goes on"]


async def test_the_key_of_a_request_from_before_the_copy_is_still_known(tmp_path: Path) -> None:
    async def put_once(engine: Engine) -> PutOncePlace:
        client = AsyncStoreClient(engine.socket, client_name="test")
        try:
            await client.wait_connected(10_000)
            (place,) = await client.put_once([marked("key")])
        finally:
            await client.aclose()
        return place

    with engine_with_topic(queues=1) as engine:
        first = await put_once(engine)
        copy_of(engine, tmp_path / "copy")
    assert list((tmp_path / "copy" / "dedup").iterdir())
    assert serious_findings(tmp_path / "copy") == []
    with started(tmp_path / "copy") as engine:
        again = await put_once(engine)
    assert again == msgspec.structs.replace(first, is_duplicate=True)


def test_a_message_moved_while_it_is_copied_is_in_one_place(tmp_path: Path) -> None:
    class MovesIt(StoreClient):
        """Between progress and the end of the log, one message fails and is moved."""

        calls = 0

        def checkpoint(self) -> CheckpointReply:
            self.calls += 1
            if self.calls == 2:
                generation, got = receive(self, 1)
                (offset,) = got
                nack = Nack(
                    topic="t", queue_id=0, lease_generation=generation, queue_offset=offset,
                    delay_ms=0,
                )  # fmt: skip
                reply = self.settle(SettleRequest(group=GROUP, nacks=[nack]))
                assert reply.nacked_count == 1
            return super().checkpoint()

    # No checkpoint but those that are asked for.
    with engine_with_topic(queues=1, MQ_ENGINE_CHECKPOINT_INTERVAL_MS="3600000") as engine:
        with engine.client() as client:
            client.group_put(GroupConfig(group=GROUP))
            put(client, b"a", b"b")
        with MovesIt(engine.socket, client_name="test") as mover:
            copy_of(engine, tmp_path / "copy", client=mover)
    with started(tmp_path / "copy") as engine, engine.client() as client:
        bodies: list[bytes] = []
        while got := receive(client, wait_ms=500 if len(bodies) == 2 else 10_000)[1]:
            bodies += got.values()
        assert sorted(bodies) == [b"a", b"b"]


def test_what_stands_behind_the_end_is_zero_and_the_checkpoint_says_where_it_is(
    tmp_path: Path,
) -> None:
    class PutsMore(StoreClient):
        """Something is put after the end was chosen."""

        def snapshot(self, request):  # type: ignore[no-untyped-def]  # reason: as the base has it
            reply = super().snapshot(request)
            put(self, b"behind the end")
            return reply

    with engine_with_topic(queues=1) as engine:
        with engine.client() as client:
            put(client, b"before")
        with PutsMore(engine.socket, client_name="test") as more:
            said = copy_of(engine, tmp_path / "copy", client=more)
        (taken,) = [line for line in said if isinstance(line, CopyStarted)]
        path = Path("commitlog", f"{0:020d}")
        original, copied = (root / path for root in (engine.store_dir, tmp_path / "copy"))
        assert b"behind the end" in original.read_bytes()[taken.end_offset :]
        assert copied.read_bytes()[: taken.end_offset] == original.read_bytes()[: taken.end_offset]
        assert not any(copied.read_bytes()[taken.end_offset :])
        assert copied.stat().st_size == original.stat().st_size
        mark = read_checkpoint(tmp_path / "copy" / "checkpoint")
        assert mark is not None
        assert mark.flushed_offset == taken.end_offset


def test_full_segments_that_are_known_are_linked(tmp_path: Path) -> None:
    with engine_with_topic(queues=1) as engine:
        with engine.client() as client:
            for _ in range(20):
                put(client, *[bytes(4_000)] * 4)  # five segments of 64 KiB
        first = files_of(copy_of(engine, tmp_path / "first"))
        segments = [file for file in first if file.path.startswith("commitlog/")]
        known = [
            KnownSegment(
                name=Path(file.path).name,
                path=str(tmp_path / "first" / file.path),
                size_bytes=file.size_bytes,
                sha256=file.sha256,
                source_inode=file.source_inode,
                source_mtime_ns=file.source_mtime_ns,
            )
            for file in segments[:-1]
        ]
        # One that is another file by now, as after a repair, is copied.
        known[0] = msgspec.structs.replace(known[0], source_inode=known[0].source_inode + 1)
        second = files_of(copy_of(engine, tmp_path / "second", known=known))
    linked = [file.is_linked for file in second if file.path.startswith("commitlog/")]
    assert linked == [False, *[True] * (len(segments) - 2), False]
    for old, new in zip(segments, second, strict=False):
        content = (tmp_path / "second" / new.path).read_bytes()
        assert content == (tmp_path / "first" / old.path).read_bytes()
        assert old.sha256 == new.sha256


def test_the_engine_of_another_store_is_refused(tmp_path: Path) -> None:
    with engine_with_topic() as engine, engine_with_topic() as other:
        (tmp_path / "copy").mkdir()
        with other.client() as client, pytest.raises(BackupFailed, match="does not own"):
            take_backup(
                engine.store_dir, tmp_path / "copy", client, say=lambda line: None,
                wait_for_go=StartCopy, pace=Pace(),
            )  # fmt: skip
        with other.client() as client:
            assert list((tmp_path / "copy").iterdir()) == []


def test_tables_that_change_meanwhile_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    (store / "config").mkdir(parents=True)
    for name in ("checkpoint", "offsets.journal", "config/topics.json", "config/groups.json"):
        (store / name).write_bytes(b"")
    changes = iter(range(3))

    def copy_and_change(source: Path, target: Path, *, name: str) -> CopiedFile:
        for change in changes:
            fresh = store / "config" / "fresh.tmp"
            fresh.write_bytes(b"%d" % change)
            fresh.replace(store / "config" / "topics.json")
            break
        return copy_file(source, target, name=name)

    monkeypatch.setattr(backup, "copy_file", copy_and_change)
    monkeypatch.setattr(small_files, "PAUSE_S", 0)
    copied = copy_small_files(store, tmp_path / "copy")
    assert (tmp_path / "copy" / "config" / "topics.json").read_bytes() == b"2"
    assert len(copied) == 4
    monkeypatch.setattr(small_files, "ATTEMPTS_MAX", 0)
    with pytest.raises(small_files.FilesKeptChanging):
        copy_small_files(store, tmp_path / "again")


def test_an_entry_of_the_journal_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    with engine_with_topic(queues=1, MQ_ENGINE_CHECKPOINT_INTERVAL_MS="3600000") as engine:
        with engine.client() as client:
            client.group_put(GroupConfig(group=GROUP))
            put(client, b"a")
            generation, got = receive(client)
            ack(client, generation, list(got))
        engine.kill()
        journal = engine.store_dir / "offsets.journal"
        whole = journal.read_bytes()
        journal.write_bytes(whole + whole[:20])
        copy_small_files(engine.store_dir, tmp_path / "copy")
        assert (tmp_path / "copy" / "offsets.journal").read_bytes() == whole


def test_a_restored_run_has_a_number_that_no_run_of_the_lost_store_had(tmp_path: Path) -> None:
    with engine_with_topic() as engine:
        copy_of(engine, tmp_path / "copy")
        for _ in range(3):  # the store lives on for some runs, then it is lost
            engine.kill()
            engine.start()
        with engine.client() as client:
            lost_epoch = client.stats().epoch
    with started(tmp_path / "copy") as engine, engine.client() as client:
        assert client.stats().epoch > lost_epoch
        assert [topic.topic for topic in client.topic_list().topics] == ["t"]


def test_a_copy_that_has_lost_its_last_segment_does_not_start(tmp_path: Path) -> None:
    with engine_with_topic(queues=1) as engine:
        with engine.client() as client:
            for _ in range(5):
                put(client, *[bytes(4_000)] * 4)
        copy_of(engine, tmp_path / "copy")
        *_, last = sorted((tmp_path / "copy" / "commitlog").iterdir())
        last.unlink()
        engine.kill()
        shutil.rmtree(engine.store_dir)
        shutil.move(tmp_path / "copy", engine.store_dir)
        code, said = engine.run_to_end()
        assert code != 0
        assert "segments are missing" in said[-1]


def test_a_segment_that_was_deleted_on_the_way_is_named(tmp_path: Path) -> None:
    def no_more(line: Line) -> None:
        if isinstance(line, CopyStarted):
            sorted((engine.store_dir / "commitlog").iterdir())[0].unlink()

    with engine_with_topic(queues=1) as engine, engine.client() as client:
        put(client, b"a")
        (tmp_path / "copy").mkdir()
        with pytest.raises(BackupFailed):
            take_backup(
                engine.store_dir, tmp_path / "copy", client, say=no_more, wait_for_go=StartCopy,
                pace=Pace(),
            )  # fmt: skip


def test_topics_and_groups_come_back_as_they_were(tmp_path: Path) -> None:
    with engine_with_topic(queues=3) as engine, engine.client() as client:
        client.group_put(GroupConfig(group=GROUP))
        client.topic_put(TopicConfig(topic="other", queue_count=1))
        before = client.topic_list(), client.group_list()
        copy_of(engine, tmp_path / "copy", client=client)
    with started(tmp_path / "copy") as engine, engine.client() as client:
        assert (client.topic_list(), client.group_list()) == before


def test_a_slow_pace_is_kept_in_pieces_of_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy, "measured_ns", lambda: 0)
    (tmp_path / "source").write_bytes(bytes(60_000))
    waits: list[float] = []
    pace = Pace(40_000, wait=waits.append)
    sizes: list[int] = []
    copy_file(tmp_path / "source", tmp_path / "copy", name="n", pace=pace, passed=sizes.append)
    assert sizes == [40_000, 20_000]
    assert waits == [1.0, 1.5]  # of a clock that stands still
    assert Pace().piece_bytes == file_copy.PIECE_BYTES
