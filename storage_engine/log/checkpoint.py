"""What was durable at the last checkpoint: where recovery starts, and how it judges damage.

    offset  width  field                     notes
         0      8  physicMsgTimestamp        RocketMQ's: store time of the last flushed record, ms
         8      8  logicsMsgTimestamp        RocketMQ's: the same for consume queues
        16      8  indexMsgTimestamp         RocketMQ's: the same for index files
        24      8  flushed_offset            log below is durable (RocketMQ: masterFlushedOffset)
        32      8  dispatched_offset         every record below is in durable consume queues
        40      8  unit_count                ours: units below dispatched_offset, all queues
        48      4  format version            ours
        52      4  CRC-32 of bytes 0 to 51   ours
        56      8  indexed_offset            ours, since version 2: every record below is in
                                             durable index files
        64      8  index_entry_count         ours, since version 2: entries of all index files
        72      4  CRC-32 of bytes 0 to 71   ours, since version 2
        76   4020  zeros

Version 1 (no index) is read as one whose index is empty. Since version 3 the store's JSON has
RocketMQ's integer keys without quotes. Version 4 says that some of the log's segments are only in a
bucket; all other stores are of version 3, so that older engines can still open them. Written whole
by rename, so it is never torn. RocketMQ writes the first 40 bytes over ours, after which the CRC is
wrong and it is no checkpoint of ours any more. A missing or damaged one makes recovery read the log
from its start, and cut nothing from it; times in it never choose where to begin.

The format version is that of the whole store: whoever changes any file so that an older engine
would misread it raises the version, and the older engine refuses the store untouched. There is no
other version file: where somebody deletes the checkpoint, the log is RocketMQ's own format and
tells itself, and the offset journal refuses kinds of entries that it does not know.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

import msgspec
from isal.isal_zlib import crc32

from storage_engine.disk.files import Files
from storage_engine.disk.layout import BUCKET_DIR, BUCKET_NOTE_SUFFIX
from storage_engine.errors import StoreCorrupt

CHECKPOINT_BYTES: Final = 4096
FORMAT_VERSION: Final = 4
_VERSION_ALL_HERE: Final = 3
_VERSIONS_READ: Final = frozenset({1, 2, 3, 4})
_BODY = struct.Struct(">qqqqqqI")
_INDEX = struct.Struct(">qq")
_CRC = struct.Struct(">I")
_INDEX_AT: Final = 56
_INDEX_CRC_AT: Final = 72
_ROCKETMQ_TIMES = struct.Struct(">QQQ")  # of all its versions
_ROCKETMQ_BYTES: Final = 40  # what it writes
_TIME_MS_MAX: Final = 1 << 43  # the year 2248: a damaged time is hardly ever below it
assert _BODY.size == 52


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Watermarks in bytes of the commit log; flushed_offset is the highest of them.

    ``unit_count`` and ``index_entry_count`` tell recovery whether the consume queues and the index
    files still hold what they held then.
    """

    flushed_offset: int = 0
    dispatched_offset: int = 0
    unit_count: int = 0
    indexed_offset: int = 0
    index_entry_count: int = 0
    store_timestamp_ms: int = 0


def write_checkpoint(files: Files, path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint; durable on return (two fsyncs)."""
    version = _version_of(path.parent)
    files.replace(path, encode_checkpoint(checkpoint, version))
    if _version_of(path.parent) != version:  # another thread has left the first segment meanwhile
        files.replace(path, encode_checkpoint(checkpoint, _version_of(path.parent)))


def replace_checkpoint(files: Files, path: Path, content: bytes) -> None:
    """The same with what another engine has written, whose version is that of its own store."""
    try:
        checkpoint = decode_checkpoint(content, path)
    except StoreCorrupt:
        checkpoint = None  # a newer engine's: whoever opens the store says so
    if checkpoint is None:
        files.replace(path, content)
    else:
        write_checkpoint(files, path, checkpoint)


def is_stamped(path: Path) -> bool:
    """Whether a checkpoint that can be believed has the version of its store as it is now."""
    version: int = _BODY.unpack_from(path.read_bytes())[-1]
    return version == _version_of(path.parent)


def _version_of(store: Path) -> int:
    """The lowest that an engine must know that serves this store."""
    try:
        with os.scandir(store / BUCKET_DIR) as entries:
            has_left = any(entry.name.endswith(BUCKET_NOTE_SUFFIX) for entry in entries)
    except FileNotFoundError:
        has_left = False
    return FORMAT_VERSION if has_left else _VERSION_ALL_HERE


def encode_checkpoint(checkpoint: Checkpoint, version: int = _VERSION_ALL_HERE) -> bytes:
    """What the file holds."""
    assert checkpoint.dispatched_offset <= checkpoint.flushed_offset
    assert checkpoint.indexed_offset <= checkpoint.flushed_offset
    stamp = checkpoint.store_timestamp_ms
    body = _BODY.pack(
        stamp,
        stamp,
        0,
        checkpoint.flushed_offset,
        checkpoint.dispatched_offset,
        checkpoint.unit_count,
        version,
    )
    content = body + _CRC.pack(crc32(body))
    content += _INDEX.pack(checkpoint.indexed_offset, checkpoint.index_entry_count)
    content += _CRC.pack(crc32(content))
    return content.ljust(CHECKPOINT_BYTES, b"\0")


def is_of_rocketmq(path: Path) -> bool:
    """Whether a checkpoint that is none of ours is one that RocketMQ has written.

    Its own has zeros behind the first 40 bytes. Where it wrote over ours, our fields behind them
    are as they were; and its times differ, where ours are twice the same one. A checkpoint of ours
    that was damaged is neither. Where all that RocketMQ has flushed is in its queues its times are
    the same too: then only the other files that it writes when it stops say so.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    times = content[: _ROCKETMQ_TIMES.size]
    if len(content) != CHECKPOINT_BYTES or not any(times):
        return False
    if not any(content[_ROCKETMQ_BYTES:]):
        return True
    stored_ms, queued_ms, indexed_ms = _ROCKETMQ_TIMES.unpack(times)
    if stored_ms == queued_ms and indexed_ms == 0:
        return False
    (first_crc,) = _CRC.unpack_from(content, _BODY.size)
    (last_crc,) = _CRC.unpack_from(content, _INDEX_CRC_AT)
    # The second CRC goes on from the first: it covers what stands between them, whatever became of
    # the bytes before.
    is_our_end: bool = crc32(content[_BODY.size : _INDEX_CRC_AT], first_crc) == last_crc
    return is_our_end and max(stored_ms, queued_ms, indexed_ms) < _TIME_MS_MAX


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint, or None when there is none that can be believed.

    Raises:
        StoreCorrupt: it was written by a newer format; the store must not be touched.
    """
    try:
        return decode_checkpoint(path.read_bytes(), path)
    except FileNotFoundError:
        return None


def decode_checkpoint(content: bytes, path: Path) -> Checkpoint | None:
    """As ``read_checkpoint``, of what stands at ``path``."""
    if len(content) < _BODY.size + _CRC.size:
        return None
    body = content[: _BODY.size]
    stamp, _, _, flushed_offset, dispatched_offset, unit_count, version = _BODY.unpack(body)
    if _CRC.unpack_from(content, _BODY.size)[0] != crc32(body):
        return None
    if version not in _VERSIONS_READ:
        raise StoreCorrupt(
            f"{path} has format version {version}, but this engine knows none above "
            f"{FORMAT_VERSION}: start the newer engine that wrote it. Nothing was "
            "changed"
        )
    indexed_offset = index_entry_count = 0
    if version >= 2:
        if len(content) < _INDEX_CRC_AT + _CRC.size:
            return None
        if _CRC.unpack_from(content, _INDEX_CRC_AT)[0] != crc32(content[:_INDEX_CRC_AT]):
            return None
        indexed_offset, index_entry_count = _INDEX.unpack_from(content, _INDEX_AT)
    return Checkpoint(
        flushed_offset=flushed_offset,
        dispatched_offset=dispatched_offset,
        unit_count=unit_count,
        indexed_offset=indexed_offset,
        index_entry_count=index_entry_count,
        store_timestamp_ms=stamp,
    )
