"""A store of RocketMQ or of this engine, opened only for reading.

    directory ── locks, segments ──▶ [StoreFiles] ── records() ──▶ SourceRecord …
    config/*.json ──▶ [RocketmqStore]

No byte of the directory is written and no file in it is made. The lock file is locked for reading,
which keeps a broker from starting on the store meanwhile and fails where one runs. Every file that
cannot be believed is a ``SourceRejected`` with its name and what would be right.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

import msgspec

from storage_engine.disk import config_json
from storage_engine.disk.layout import (
    ABORT_FILE,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUME_QUEUE_DIR,
    CONSUMER_OFFSET_FILE,
    DELAY_OFFSET_FILE,
    GROUPS_FILE,
    LOCK_FILE,
    TOPICS_FILE,
    base_offset_of,
    segment_name,
)
from storage_engine.disk.mapped_file import MappedFile, read_only
from storage_engine.errors import StoreCorrupt, StoreError
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.log.log_scan import Damage, LogEnd, Run, read_through
from storage_engine.queues.consume_queue import PRE_BLANK_BYTES, UNIT, UNIT_BYTES
from storage_engine.records.record import RecordHead, parse_head
from storage_engine.recovery.open_checks import reject_gaps

TIMER_CHECKPOINT_FILE: Final = "timercheck"
_ROCKSDB_QUEUES: Final = "consumequeue_r"
_READ_LOCK: Final = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
_TIMER_CHECKPOINT: Final = struct.Struct(">qqqq")


class SourceRejected(StoreError):
    """The directory is not a RocketMQ store that can be read; nothing was changed."""

    code = 16


class TopicRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``topics.json`` says of a topic, as far as it matters here."""

    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 6
    attributes: dict[str, str] | None = None

    @property
    def queue_count(self) -> int:
        return max(self.read_queue_nums, self.write_queue_nums)

    def attribute(self, name: str) -> str:
        """Its value; empty without it. RocketMQ's tools leave a plus sign before the name."""
        attributes = self.attributes or {}
        return attributes.get(name) or attributes.get(f"+{name}") or ""


class GroupRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``subscriptionGroup.json`` says of a group, as far as it matters here."""

    consume_enable: bool = True
    consume_message_orderly: bool = False
    retry_max_times: int = 16
    # Any: RocketMQ's own object, of which only its presence is looked at
    group_retry_policy: dict[str, Any] | None = None


class _Topics(msgspec.Struct, frozen=True, rename="camel"):
    topic_config_table: dict[str, TopicRow]


class _Groups(msgspec.Struct, frozen=True, rename="camel"):
    subscription_group_table: dict[str, GroupRow] = {}


class _Offsets(msgspec.Struct, frozen=True, rename="camel"):
    offset_table: dict[str, dict[int, int]] = {}


class _Levels(msgspec.Struct, frozen=True, rename="camel"):
    offset_table: dict[int, int] = {}


class TimerProgress(NamedTuple):
    """How far the timing wheel is: everything due before ``read_ms`` (epoch) was delivered, as far
    as it stands before ``queue_offset`` of the timer topic.
    """

    read_ms: int
    queue_offset: int


class SourceRecord(NamedTuple):
    """A record as it stands in the log: ``view`` is the segment, ``at`` its position there."""

    view: memoryview
    at: int
    head: RecordHead
    is_supported: bool


class StoreFiles:
    """See the module's docstring. Use as a context manager; it holds the locks meanwhile."""

    how_to_stop: ClassVar[str]
    how_to_repair: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locked = contextlib.ExitStack()
        self._before: dict[str, tuple[int, int]] = {}
        self.start_offset = 0
        self.end_offset = 0
        self.segment_bytes = 0
        self.tail_bytes = 0  # behind the last whole record, and no records
        self._segments: list[tuple[int, Path]] = []

    def __enter__(self) -> Self:
        """Lock and read all but the log. Raises ``SourceRejected``."""
        try:
            self._require_kind()
            self._lock()
            self._before = self._stamps()
            self._read_config()
            self._find_segments()
        except BaseException as exc:
            self._locked.close()
            if isinstance(exc, OSError):
                raise SourceRejected(f"cannot read {self.path}: {exc}") from exc
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._locked.close()

    def _require_kind(self) -> None:
        """Raises ``SourceRejected``: the directory is no store of this kind."""
        raise NotImplementedError

    def _read_config(self) -> None:
        """Read all small files. Raises ``SourceRejected``."""
        raise NotImplementedError

    @property
    def was_shut_down_cleanly(self) -> bool:
        return not (self.path / ABORT_FILE).exists()

    @property
    def log_bytes(self) -> int:
        """Size of all segments together."""
        return len(self._segments) * self.segment_bytes

    def _lock(self) -> None:
        """A broker that runs has RocketMQ's lock, an engine of ours has both."""
        try:
            descriptor = os.open(self.path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # no broker has ever opened this copy; ``require_unchanged`` sees one that does
        self._locked.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _READ_LOCK)
        except (BlockingIOError, PermissionError) as exc:
            raise SourceRejected(
                f"{self.path} is in use: a broker or an engine has its lock. "
                f"{self.how_to_stop}. Nothing was changed"
            ) from exc

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of every file, by name."""
        stamps = {}
        for path in self.path.rglob("*"):
            if path.is_file():
                stat = path.stat()
                stamps[str(path.relative_to(self.path))] = (stat.st_size, stat.st_mtime_ns)
        return stamps

    def require_unchanged(self) -> None:
        """Raises ``SourceRejected``: somebody has written to the store since it was opened."""
        now = self._stamps()
        changed = sorted(
            name
            for name in now.keys() | self._before.keys()
            if now.get(name) != self._before.get(name)
        )
        if changed:
            raise SourceRejected(
                f"{self.path} was changed while it was read "
                f"({', '.join(changed[:3])}): stop the broker that writes to it, and "
                "start again"
            )

    def _find_segments(self) -> None:
        directory = self.path / COMMIT_LOG_DIR
        found = sorted(
            (base, path)
            for path in directory.iterdir()
            if (base := base_offset_of(path.name)) is not None and path.stat().st_size
        )
        if not found:
            raise SourceRejected(
                f"{directory} has no segments: copy the files of its commitlog directory too"
            )
        self.segment_bytes = found[0][1].stat().st_size
        wanted = self.start_offset = found[0][0]
        for base, path in found:
            if base != wanted:
                raise SourceRejected(
                    f"{directory}: segment {wanted:020d} is missing, the next one is "
                    f"{path.name}. Copy the whole directory"
                )
            size = path.stat().st_size
            if size != self.segment_bytes:
                raise SourceRejected(
                    f"{path} has {size} bytes, but the first segment has "
                    f"{self.segment_bytes}: it was not copied completely. Copy it "
                    "again"
                )
            wanted += size
        self._segments = found

    def records(self) -> Iterator[SourceRecord]:
        """Every whole record in the order of the log; sets ``end_offset`` at the end of it.

        Raises ``SourceRejected``: something in the middle of the log is no record.
        """
        segments = [read_only(path, base) for base, path in self._segments]
        for found in read_through(segments, self.start_offset, 0, keeps_whole=True, closes=True):
            match found:
                case Run(segment):
                    for at in found.positions():
                        yield SourceRecord(segment.view, at, parse_head(segment.view, at), True)
                case Damage(start, _, _, is_unsupported=True):
                    segment = self._segment_at(segments, start)
                    at = start - segment.base_offset
                    yield SourceRecord(segment.view, at, parse_head(segment.view, at), False)
                case Damage(start, end, reason):
                    raise SourceRejected(
                        f"{self._segment_at(segments, start).path}: there is no record at {start} "
                        f"({reason}), but records follow at {end}. {self.how_to_repair}"
                    )
                case LogEnd() as end:
                    self._end_at(end)

    def _segment_at(self, segments: list[MappedFile], offset: int) -> MappedFile:
        return segments[(offset - self.start_offset) // self.segment_bytes]

    def _end_at(self, end: LogEnd) -> None:
        """The log ends here, and every later segment must be unused."""
        self.end_offset = end.offset
        self.tail_bytes = max(end.torn_end - end.offset, 0)
        if end.newest_offset > end.offset:
            raise SourceRejected(
                f"{self.path / COMMIT_LOG_DIR}: records end at {end.offset}, but segment "
                f"{segment_name(end.newest_offset)} has more. {self.how_to_repair}"
            )


class RocketmqStore(StoreFiles):
    """The store of a RocketMQ broker, with what its JSON files say."""

    how_to_stop = "Stop it first (bin/mqshutdown broker)"
    how_to_repair = "Copy the segment again, or let a broker recover the store first"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.topics: dict[str, TopicRow] = {}
        self.groups: dict[str, GroupRow] = {}
        self.offsets: dict[str, dict[int, int]] = {}  # topic@group → queue id → consumer offset
        self.level_offsets: dict[int, int] = {}  # delay level → first that is still to come
        self.timer: TimerProgress | None = None

    def _require_kind(self) -> None:
        _reject_other_directories(self.path)

    def _read_config(self) -> None:
        config = self.path / CONFIG_DIR
        topics = self._json(config / TOPICS_FILE, _Topics)
        if topics is None:
            raise SourceRejected(
                f"{config / TOPICS_FILE} is missing, and it lists the topics. Copy "
                "the whole config directory of the broker's store; stores with "
                "storeType=defaultRocksDB keep it elsewhere and cannot be read"
            )
        self.topics = topics.topic_config_table
        self.groups = (
            self._json(config / GROUPS_FILE, _Groups) or _Groups()
        ).subscription_group_table
        self.offsets = (
            self._json(config / CONSUMER_OFFSET_FILE, _Offsets) or _Offsets()
        ).offset_table
        self.level_offsets = (
            self._json(config / DELAY_OFFSET_FILE, _Levels) or _Levels()
        ).offset_table
        path = config / TIMER_CHECKPOINT_FILE
        if path.exists():
            content = path.read_bytes()
            if len(content) < _TIMER_CHECKPOINT.size:
                raise SourceRejected(
                    f"{path} has {len(content)} bytes, but {_TIMER_CHECKPOINT.size} "
                    "or more are expected: copy it again"
                )
            read_ms, _, queue_offset, master_offset = _TIMER_CHECKPOINT.unpack_from(content)
            self.timer = TimerProgress(read_ms, min(queue_offset, master_offset))

    def _json(self, path: Path, kind: type[config_json.ValueT]) -> config_json.ValueT | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return config_json.decode(content, kind, path)
        except StoreCorrupt as exc:
            raise SourceRejected(
                f"{exc}. RocketMQ keeps the previous version as {path.name}.bak; "
                "nothing was changed"
            ) from exc

    def require_complete(self) -> None:
        """After ``records``: raises ``SourceRejected`` when consume queues lead behind its end."""
        try:
            reject_gaps(
                self.path, {}, log_start=self.start_offset, log_end=self.end_offset, is_ours=False
            )
        except StoreCorrupt as exc:
            raise SourceRejected(str(exc)) from exc

    def queue_ends(self) -> Iterator[tuple[str, int, int]]:
        """Topic, queue id and max offset of each consume queue that has units."""
        root = self.path / CONSUME_QUEUE_DIR
        for topic in sorted(root.iterdir()) if root.is_dir() else ():
            for directory in sorted(topic.iterdir()) if topic.is_dir() else ():
                if directory.name.isdecimal() and (end := _end_of(directory)):
                    yield topic.name, int(directory.name), end

    def unit_tag(self, head: RecordHead) -> int | None:
        """The tag field of a record's consume-queue unit; None when the queue does not have it."""
        directory = self.path / CONSUME_QUEUE_DIR / head.topic.decode() / str(head.queue_id)
        position = head.queue_offset * UNIT_BYTES
        files = [path for path in directory.glob("*") if base_offset_of(path.name) is not None]
        file = max((path for path in files if int(path.name) <= position), default=None)
        if file is None:
            return None
        with file.open("rb") as content:
            content.seek(position - int(file.name))
            unit = content.read(UNIT_BYTES)
        if len(unit) < UNIT_BYTES:
            return None
        physical_offset, record_bytes, tag = UNIT.unpack(unit)
        is_its = (physical_offset, record_bytes) == (head.physical_offset, head.record_bytes)
        return int(tag) if is_its else None


def _end_of(directory: Path) -> int:
    """Queue offset behind the last unit; 0 in an empty queue. A binary search in its last file."""
    files = sorted(path for path in directory.iterdir() if base_offset_of(path.name) is not None)
    for path in reversed(files):
        content = path.read_bytes()
        low, high = 0, len(content) // UNIT_BYTES
        while low < high:
            middle = (low + high) // 2
            if UNIT.unpack_from(content, middle * UNIT_BYTES)[1] > 0:
                low = middle + 1
            else:
                high = middle
        if low and UNIT.unpack_from(content, (low - 1) * UNIT_BYTES)[1] != PRE_BLANK_BYTES:
            return int(path.name) // UNIT_BYTES + low
    return 0


def _reject_other_directories(path: Path) -> None:
    if not path.is_dir():
        raise SourceRejected(f"{path} is not a directory: name the broker's storePathRootDir")
    if not (path / COMMIT_LOG_DIR).is_dir():
        inner = path / "store"
        hint = f"; {inner} looks like one" if (inner / COMMIT_LOG_DIR).is_dir() else ""
        raise SourceRejected(
            f"{path} is not a RocketMQ store: it has no {COMMIT_LOG_DIR} "
            f"directory{hint}. Name the broker's storePathRootDir"
        )
    if (path / _ROCKSDB_QUEUES).is_dir() and not (path / CONSUME_QUEUE_DIR).is_dir():
        raise SourceRejected(
            f"{path / _ROCKSDB_QUEUES} is a RocksDB database: stores with "
            "storeType=defaultRocksDB cannot be read. Let the broker write its "
            "queues and config as files first"
        )
    try:
        mark = read_checkpoint(path / CHECKPOINT_FILE)
    except StoreCorrupt as exc:
        raise SourceRejected(str(exc)) from exc
    if mark is not None:
        raise SourceRejected(
            f"{path} was written by this service, not by RocketMQ: use `mqservice backup` to copy "
            "it, or start the service on it"
        )
