"""Which adapter a URL names. Each imports its library only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from urllib.parse import parse_qsl, urlsplit

from storage_engine.clock import Clock
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replicated_log.errors import Misconfigured
from storage_engine.replicated_log.file_bucket import FileBucket
from storage_engine.replicated_log.object_log import ObjectLog
from storage_engine.replicated_log.port import ReplicatedLog

SCHEMES = "memory:, file:, s3:, gs:, az: and kafka:"


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
    parts = urlsplit(url)
    options = {**options, **dict(parse_qsl(parts.query))}
    bucket: Bucket
    if parts.scheme == "file":
        bucket = FileBucket(Path(parts.path))
    elif parts.scheme in ("memory", "s3", "gs", "az"):
        try:
            from storage_engine.replicated_log.obstore_bucket import ObstoreBucket
        except ModuleNotFoundError as exc:
            raise Misconfigured(f"{url} needs the extra object-store: {exc}") from exc
        bucket = ObstoreBucket.of_url(parts._replace(query="").geturl(), options)
    elif parts.scheme == "kafka":
        return _kafka_log(url, shard, deployment, options, clock)
    else:
        raise Misconfigured(f"{url} is no replicated log: its scheme may be {SCHEMES}")
    return ObjectLog(bucket, shard=shard, deployment=deployment, clock=clock, random=SystemRandom())


def _kafka_log(
    url: str, shard: str, deployment: str, options: Mapping[str, str], clock: Clock
) -> ReplicatedLog:
    """``kafka://HOST:PORT,HOST:PORT/PREFIX``."""
    try:
        from storage_engine.replicated_log.kafka_log import KafkaLog
    except ModuleNotFoundError as exc:
        raise Misconfigured(f"{url} needs the extra kafka: {exc}") from exc
    parts = urlsplit(url)
    topic = f"{parts.path.strip('/') or 'mqservice'}.{deployment}.{shard}"
    return KafkaLog(parts.netloc, topic, options=options, clock=clock, random=SystemRandom())
