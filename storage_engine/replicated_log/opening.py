"""Which adapter a URL names. Each imports its library only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from storage_engine.clock import Clock
from storage_engine.config import ENV_PREFIX, StoreConfig
from storage_engine.errors import ConfigInvalid
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replicated_log.errors import Misconfigured
from storage_engine.replicated_log.file_bucket import FileBucket
from storage_engine.replicated_log.object_log import ObjectLog
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket

SCHEMES = "memory:, file:, s3:, gs:, az: and kafka:"
_BUCKETS: Final = ("memory", "file", "s3", "gs", "az")


def open_shard(config: StoreConfig, clock: Clock) -> tuple[ReplicatedLog, SnapshotBucket | None]:
    """The log of the shard that a configuration names, not opened for writing yet, and where its
    snapshots are. Raises ConfigInvalid with the setting's name.
    """
    shard, deployment = config.shard, config.deployment
    name = "REPLICATED_LOG"
    try:
        replicated_log = open_log(
            config.replicated_log, shard=shard, deployment=deployment, options={}, clock=clock
        )
        if config.snapshot_url:
            name = "SNAPSHOT_URL"
        url = config.snapshot_url or config.replicated_log
        snapshots = open_snapshots(url, shard=shard, deployment=deployment, options={}, clock=clock)
    except Misconfigured as exc:
        raise ConfigInvalid(f"{ENV_PREFIX}{name}: {exc}") from exc
    if config.local_retention_bytes and snapshots is None:
        raise ConfigInvalid(
            f"{ENV_PREFIX}LOCAL_RETENTION_BYTES is set, but a log in Kafka has no bucket for the "
            f"rest: set {ENV_PREFIX}SNAPSHOT_URL, or let it be 0"
        )
    return replicated_log, snapshots


def open_log(
    url: str,
    *,
    shard: str,
    deployment: str,
    options: Mapping[str, str],
    clock: Clock,
) -> ReplicatedLog:
    """The log of a shard, not opened for writing yet. ``options`` are the library's settings; those
    of the URL's query are added to them. Raises Misconfigured.
    """
    if _is_kafka(url):
        return _kafka_log(url, shard, deployment, options, clock)
    return ObjectLog(
        _bucket(url, options),
        shard=shard,
        deployment=deployment,
        clock=clock,
        random=SystemRandom(),
    )


def open_snapshots(
    url: str,
    *,
    shard: str,
    deployment: str,
    options: Mapping[str, str],
    clock: Clock,
) -> SnapshotBucket | None:
    """Where snapshots of a shard are, by the same kinds of URL; None for a log that is no bucket.
    Raises Misconfigured.
    """
    if _is_kafka(url):
        return None
    return SnapshotBucket(
        _bucket(url, options),
        shard=shard,
        deployment=deployment,
        clock=clock,
        random=SystemRandom(),
    )


def has_snapshots(url: str) -> bool:
    """Whether it is a bucket, which can hold them."""
    return not _is_kafka(url)


def _is_kafka(url: str) -> bool:
    return urlsplit(url).scheme == "kafka"


def _bucket(url: str, options: Mapping[str, str]) -> Bucket:
    parts = urlsplit(url)
    if parts.scheme not in _BUCKETS:
        raise Misconfigured(f"{url} names no replicated log: its scheme may be {SCHEMES}")
    if parts.scheme == "file":
        return FileBucket(Path(parts.path))
    try:
        from storage_engine.replicated_log.obstore_bucket import ObstoreBucket
    except ModuleNotFoundError as exc:
        raise Misconfigured(f"{url} needs the extra object-store: {exc}") from exc
    query = dict(parse_qsl(parts.query))
    return ObstoreBucket.of_url(parts._replace(query="").geturl(), {**options, **query})


def _kafka_log(
    url: str, shard: str, deployment: str, options: Mapping[str, str], clock: Clock
) -> ReplicatedLog:
    """``kafka://HOST:PORT,HOST:PORT/PREFIX``."""
    try:
        from storage_engine.replicated_log.kafka_log import KafkaLog
    except ModuleNotFoundError as exc:
        raise Misconfigured(f"{url} needs the extra kafka: {exc}") from exc
    parts = urlsplit(url)
    options = {**options, **dict(parse_qsl(parts.query))}
    topic = f"{parts.path.strip('/') or 'mqservice'}.{deployment}.{shard}"
    return KafkaLog(parts.netloc, topic, options=options, clock=clock, random=SystemRandom())
