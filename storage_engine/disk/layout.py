"""Names of everything in a store directory, as RocketMQ has them.

store/
  commitlog/00000000000000000000      segments, named by base offset, 20 digits
  consumequeue/<topic>/<queue_id>/    units, same naming
  index/20260102030405678             key index files, named by time, 17 digits
  config/consumerOffset.json topics.json subscriptionGroup.json
  config/minOffsets.json              where each queue begins since retention last deleted (ours)
  config/quarantine.json              damaged places of the log (ours)
  config/retentionClock.json          the time by which messages grow old (ours)
  config/namespaceHolds.json          namespaces that go to another shard, or went there (ours)
  config/split.json                   which split of another shard the store came from (ours)
  dedup/00000001                      keys of requests within their window (ours)
  offsets.journal                     settled offsets since the last checkpoint
  checkpoint  abort  lock
  reserve                             disk kept for settles and checkpoints (ours)
  spare                               disk kept for minOffsets.json (ours)
  replication.json                    how much of it the replicated log has (ours)
  bucket/00000000000000000000.json    which segment only the bucket has, and where there (ours)
  bucket/00000000000000000000.part    what of it was read lately (ours)
  shard                               whose store it is, unless the main shard's (ours)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

BASE_OFFSET_DIGITS: Final = 20
INDEX_NAME_DIGITS: Final = 17
COMMIT_LOG_DIR: Final = "commitlog"
CONSUME_QUEUE_DIR: Final = "consumequeue"
INDEX_DIR: Final = "index"
CONFIG_DIR: Final = "config"
TOPICS_FILE: Final = "topics.json"
GROUPS_FILE: Final = "subscriptionGroup.json"
CONSUMER_OFFSET_FILE: Final = "consumerOffset.json"
MIN_OFFSETS_FILE: Final = "minOffsets.json"
QUARANTINE_FILE: Final = "quarantine.json"
RETENTION_CLOCK_FILE: Final = "retentionClock.json"
NAMESPACE_HOLDS_FILE: Final = "namespaceHolds.json"
DELAY_CLOCK_FILE: Final = "delayClock.json"
DELAY_OFFSET_FILE: Final = "delayOffset.json"
JOURNAL_FILE: Final = "offsets.journal"
DEDUP_DIR: Final = "dedup"
CHECKPOINT_FILE: Final = "checkpoint"
ABORT_FILE: Final = "abort"
LOCK_FILE: Final = "lock"
RESERVE_FILE: Final = "reserve"
SPARE_FILE: Final = "spare"
REPLICATION_FILE: Final = "replication.json"
BUCKET_DIR: Final = "bucket"
BUCKET_NOTE_SUFFIX: Final = ".json"  # of the small file for a segment that only the bucket has
SHARD_FILE: Final = "shard"
SPLIT_FILE: Final = "split.json"
TEMPORARY_SUFFIX: Final = ".tmp"
LOST_AND_FOUND: Final = "lost+found"  # what a file system keeps in its first directory


def segment_name(base_offset: int) -> str:
    """File name of the segment that starts at ``base_offset`` bytes."""
    assert base_offset >= 0
    return f"{base_offset:0{BASE_OFFSET_DIGITS}d}"


def base_offset_of(name: str) -> int | None:
    """Base offset in a segment's file name; None for any other file."""
    if len(name) == BASE_OFFSET_DIGITS and name.isascii() and name.isdigit():
        return int(name)
    return None


def base_offsets_in(directory: Path) -> list[int]:
    """Those of the segments in a directory, in order; one listing."""
    names = os.listdir(directory) if directory.is_dir() else []
    return sorted([base for name in names if (base := base_offset_of(name)) is not None])


def has_store(path: Path) -> bool:
    """Whether a directory has topics or messages, not only what is made before there are any."""
    has_topics = (path / CONFIG_DIR / TOPICS_FILE).exists()
    return has_topics or bool(base_offsets_in(path / COMMIT_LOG_DIR))


def consume_queue_dir(store: Path, topic: str, queue_id: int) -> Path:
    return store / CONSUME_QUEUE_DIR / topic / str(queue_id)
