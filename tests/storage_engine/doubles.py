"""A clock that is moved by hand, files that can be injured, and an open store to test through.

    test ──▶ [OpenStore] ──▶ Store (real) ──▶ FaultyFiles ──▶ real files in a temporary directory

Everything is tiny: a segment is a page, a consume queue file four units; few messages roll both.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from storage_engine.config import StoreConfig
from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.disk.files import Files, Mapping
from storage_engine.errors import DiskFull, StoreError, SyncFailed
from storage_engine.filters.message_filter import FilterKind
from storage_engine.log.segment_cache import SegmentCache
from storage_engine.puts.put_path import Appended
from storage_engine.records.record import Record, StoreMessage, encode_record
from storage_engine.records.record_run import decode_records
from storage_engine.replication.tail import LogPlace
from storage_engine.store import Store
from storage_engine.wire.deliveries import LeaseRef, ReceiveRequest, SettleReply, SettleRequest
from storage_engine.wire.groups import GroupConfig, StartFrom
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.topics import Durability, TopicConfig

SEGMENT_BYTES: Final = 4_096
UNITS: Final = 4
BORN_MS: Final = 1_700_000_000_000
WAIT_S: Final = 60.0


class Killed(BaseException):
    """The process died here: nothing after this point was done."""


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self, now_ms: int = 1_700_000_001_000, monotonic_ms: int = 50_000) -> None:
        self.wall_ms = now_ms
        self.steady_ms = monotonic_ms

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def advance(self, by_ms: int) -> None:
        self.wall_ms += by_ms
        self.steady_ms += by_ms


class FaultyFiles(Files):
    """The real files, with a disk that is full, refuses syncs, or a machine that stops.

    ``full`` names the operations that find no room, ``broken`` those that fail otherwise.
    ``sync_failures`` is how many of the next map syncs fail. ``kill_at`` counts every operation
    that changes something; at zero, ``Killed``.
    """

    def __init__(self) -> None:
        self.full: set[str] = set()
        self.full_dirs: set[str] = set()  # of this name, no file in them finds room
        self.broken: set[str] = set()
        self.broken_syncs: set[str] = set()  # syncs of files in directories of this name fail
        self.full_append = -1  # the append of this number finds no room
        self.sync_failures = 0
        self.sync_gate: threading.Event | None = None  # map syncs wait here
        self.syncing = threading.Event()  # a map sync has begun
        self.dir_sync_failures = 0
        self.kill_at: int | None = None
        self.operations: list[str] = []
        self.medium = "first boot"
        self.disk = (1 << 40, 1 << 40)  # bytes in all, bytes free

    def _enter(self, name: str) -> None:
        self.operations.append(name)
        # A kill in the flusher's thread would be an unhandled exception there, not an end.
        if self.kill_at is not None and threading.current_thread().name != "flusher":
            if self.kill_at == 0:
                raise Killed(name)
            self.kill_at -= 1
        if name in self.full:
            raise DiskFull(f"no room to {name}")
        if name in self.broken:
            raise OSError(errno.EMFILE, f"injected into {name}")

    def _find_room_in(self, path: Path) -> None:
        if path.parent.name in self.full_dirs:
            raise DiskFull(f"no room in {path.parent.name}")

    def create(
        self,
        path: Path,
        size_bytes: int,
        allocate_bytes: int,
        content: bytes | memoryview = b"",
        *,
        durable: bool = True,
    ) -> None:
        self._enter("create")
        self._find_room_in(path)
        super().create(path, size_bytes, allocate_bytes, content, durable=durable)

    def allocate(self, path: Path, offset: int, length_bytes: int) -> None:
        self._enter("allocate")
        self._find_room_in(path)
        super().allocate(path, offset, length_bytes)

    def sync_map(self, mapping: Mapping, path: Path, offset: int, length_bytes: int) -> None:
        self._enter("sync_map")
        self.syncing.set()
        if self.sync_gate is not None:
            self.sync_gate.wait(WAIT_S)
        if self.sync_failures:
            self.sync_failures -= 1
            raise SyncFailed(f"injected for {path}")
        if path.parent.name in self.broken_syncs:
            raise SyncFailed(f"injected for {path}")
        super().sync_map(mapping, path, offset, length_bytes)

    def sync_file_system(self, path: Path) -> None:
        if path.name in self.broken_syncs:
            raise SyncFailed(f"injected for {path}")
        super().sync_file_system(path)

    def sync_dir(self, path: Path) -> None:
        if self.dir_sync_failures:
            self.dir_sync_failures -= 1
            raise SyncFailed(f"injected for directory {path}")
        super().sync_dir(path)

    def replace(self, path: Path, content: bytes) -> None:
        self._enter("replace")
        super().replace(path, content)

    def append(self, descriptor: int, path: Path, content: bytes) -> None:
        if self.operations.count("append") == self.full_append:
            raise DiskFull("no room to append, this once")
        self._enter("append")
        super().append(descriptor, path, content)

    def disk_usage(self, path: Path) -> tuple[int, int]:
        return self.disk

    def medium_id(self, path: Path) -> str:
        return self.medium

    def unlink(self, path: Path) -> None:
        self._enter("unlink")
        super().unlink(path)


def tiny_config(store_dir: Path, **limits: int) -> StoreConfig:
    """Limits so small that everything rolls and overflows."""
    values: dict[str, int] = {
        "segment_bytes": SEGMENT_BYTES,
        "consume_queue_units": UNITS,
        "consume_queue_allocate_bytes": UNITS * 20,
        "index_slots": 5,
        "index_entries": 8,
        "index_allocate_bytes": 64,
        "prefault_bytes": 0,
        "body_bytes_max": 2_048,
        "frame_bytes_max": 64 * 1_024,
        "inflight_count_max": 16,
        "repair_interval_ms": 20,
        "prepare_segments": 0,
        "schedule_step_ms": 0,  # what real time there is must not matter
        "reserve_bytes": 0,
        **limits,
    }
    return msgspec.convert({"store_dir": str(store_dir), **values}, StoreConfig)


def message(
    body: bytes,
    *,
    topic: str = "t",
    queue_id: int = 0,
    tag: str | None = None,
    properties: dict[str, str] | None = None,
) -> StoreMessage:
    """A message with fixed ids and times."""
    return StoreMessage(
        topic=topic,
        queue_id=queue_id,
        body=body,
        message_id="01" * 17,
        born_timestamp_ms=BORN_MS,
        born_host=("10.0.0.1", 5_000),
        tag=tag,
        properties=properties or {},
    )


class Put(NamedTuple):
    """Answer to a PUT frame."""

    offsets: list[tuple[int, int]]
    error: StoreError | None


class Leased(NamedTuple):
    """Answer to a receive."""

    generation: int
    attempts: list[int]
    records: list[Record]

    @property
    def bodies(self) -> list[bytes]:
        return [record.body for record in self.records]


class OpenStore:
    """A store on a real loop; everything waits for its answer. Use inside a coroutine."""

    def __init__(
        self,
        store_dir: Path,
        *,
        clock: ManualClock | None = None,
        files: FaultyFiles | None = None,
        limits: dict[str, int] | None = None,
        place: LogPlace | None = None,
        cache: SegmentCache | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.files = files or FaultyFiles()
        self.store_dir = store_dir
        config = tiny_config(store_dir, **(limits or {}))
        if place is not None:
            config = msgspec.structs.replace(config, replicated_log="memory:")
        self.store = Store(config, self.clock, self.files, place, cache)
        self._is_running = False

    def open(self) -> OpenStore:
        self.store.open(asyncio.get_running_loop())
        self._is_running = True
        return self

    async def __aenter__(self) -> OpenStore:
        return self.open()

    async def __aexit__(self, *_: object) -> None:
        if self._is_running:
            await self.close()

    async def close(self) -> None:
        self._is_running = False
        await self.store.close()

    def topic(
        self, name: str = "t", queues: int = 1, durability: Durability = Durability.SYNC
    ) -> None:
        self.store.catalog.topic_put(
            TopicConfig(topic=name, queue_count=queues, durability=durability)
        )

    def group(self, name: str = "g", start_from: StartFrom = StartFrom.EARLIEST) -> None:
        self.store.catalog.group_put(GroupConfig(group=name, start_from=start_from))

    def start_put(self, messages: Iterable[StoreMessage]) -> asyncio.Future[Put]:
        """Put, and a future of the answer. Raises what ``Store.put`` raises."""
        future: asyncio.Future[Put] = asyncio.get_running_loop().create_future()

        def answered(appended: Appended, stamp: int, error: StoreError | None) -> None:
            flat = appended.offsets
            future.set_result(Put(list(zip(flat[::2], flat[1::2], strict=True)), error))

        self.store.put(b"".join(map(encode_record, messages)), answered)
        return future

    async def put(self, *messages: StoreMessage) -> Put:
        return await asyncio.wait_for(self.start_put(messages), WAIT_S)

    async def put_bodies(self, *bodies: bytes, queue_id: int = 0) -> None:
        """One frame for each body."""
        for body in bodies:
            assert (await self.put(message(body, queue_id=queue_id))).error is None

    def park(
        self,
        count: int = 1,
        *,
        wait_ms: int = 10_000,
        lease_ms: int = 1_000,
        topic: str = "t",
        group: str = "g",
        member_id: str = "m",
        tags: str = "",
        sql: str = "",
        is_unnamed: bool = False,
        ignores_queues: bool = False,
    ) -> tuple[list[Leased], WaitingReceive | None]:
        """Receive; the list gets the answer when there is one."""
        answers: list[Leased] = []

        def answered(delivered: Delivered) -> None:
            records = decode_records(delivered.read(self.store.read_records))
            answers.append(Leased(delivered.lease_generation, delivered.attempts, records))

        request = ReceiveRequest(
            group=group, topic=topic, member_id=member_id, messages_max=count, bytes_max=1 << 20,
            wait_ms=wait_ms, lease_ms=lease_ms, filter=sql or tags,
            filter_kind=FilterKind.SQL92 if sql else FilterKind.TAG, is_unnamed=is_unnamed,
            ignores_queues=ignores_queues,
        )  # fmt: skip
        parked = self.store.consumption.receive(request, answered)
        return answers, parked

    def receive(
        self,
        count: int = 16,
        *,
        lease_ms: int = 1_000,
        is_unnamed: bool = False,
        ignores_queues: bool = False,
        **who: str,
    ) -> Leased:
        """What is ready now; ``who`` as for ``park``."""
        answers, _ = self.park(
            count,
            wait_ms=0,
            lease_ms=lease_ms,
            is_unnamed=is_unnamed,
            ignores_queues=ignores_queues,
            **who,
        )
        return answers[0]

    def consumer_offset(self, queue_id: int = 0, *, group: str = "g") -> int:
        """Of a queue of topic ``t``."""
        queues = self.store.consumption.group_stats(group).queues
        (found,) = [queue for queue in queues if (queue.topic, queue.queue_id) == ("t", queue_id)]
        return found.consumer_offset

    def ack(self, leased: Leased, *queue_offsets: int, group: str = "g") -> SettleReply:
        """Ack some of what was leased (all of it when none is named), all of queue 0 or of one."""
        wanted = set(queue_offsets)
        by_queue: dict[tuple[str, int], list[int]] = {}
        for record in leased.records:
            if not wanted or record.queue_offset in wanted:
                name = record.topic, record.queue_id
                by_queue.setdefault(name, []).append(record.queue_offset)
        return self.store.consumption.settle(
            SettleRequest(
                group=group,
                acks=[
                    LeaseRef(
                        topic=topic,
                        queue_id=queue_id,
                        lease_generation=leased.generation,
                        queue_offsets=offsets,
                    )
                    for (topic, queue_id), offsets in by_queue.items()
                ],
            )
        )

    async def pass_time(self, by_ms: int) -> None:
        """The clock moves on; what follows from it is done, and durable."""
        self.clock.advance(by_ms)
        await self.settled()

    async def settled(self) -> None:
        """Until nothing more follows from the time it is: messages that move have arrived."""
        appended = -1
        while appended < self.store.stats(0).append_offset:
            appended = self.store.stats(0).append_offset
            self.store.tick()
            await self.store.durability.durable_to(self.store.stats(0).append_offset)
            schedule = self.store.consumption.schedule
            # The flusher has still to say so, and the schedule may have a turn to come.
            while not self.store.dispatcher.is_idle or schedule._has_turn:
                await asyncio.sleep(0)

    def pull_bodies(
        self, queue_id: int = 0, queue_offset: int = 0, *, topic: str = "t"
    ) -> list[bytes]:
        """All visible bodies of one queue from an offset on; offsets must be dense."""
        request = PullRequest(
            topic=topic,
            queue_id=queue_id,
            queue_offset=queue_offset,
            messages_max=1_000,
            bytes_max=1 << 20,
        )
        _, found = self.store.pull(request)
        records = decode_records(self.store.read_records(found))
        expected = list(range(queue_offset, queue_offset + len(records)))
        assert [record.queue_offset for record in records] == expected
        return [record.body for record in records]


def fingerprint(directory: Path, *, without: Iterable[str] = ()) -> dict[str, bytes]:
    """Every file below a directory with its content."""
    skipped = set(without)
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


def copy_store(source: Path, target: Path) -> Path:
    """The directory as a kill -9 would leave it: what the page cache knows."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
            os.chmod(place, 0o600)
    return target
