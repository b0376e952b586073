"""Samples the engine and saves the result: the body of the periodic tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.utils import timezone

from mqservice.lib.names import MAIN_SHARD
from mqservice.monitoring.models import EngineSample
from mqservice.store import StatsReply, StoreError, blocking_client

QUARANTINED: Final = "quarantined_records"  # a part only while there are any
SAMPLE_AGE_MAX: Final = timedelta(days=1)
_COUNTERS: Final = (
    "epoch", "uptime_ms", "put_count", "put_bytes", "delivered_count", "acked_count",
    "append_offset", "flushed_offset", "parked_count", "connection_count",
)  # fmt: skip


def record_engine_sample() -> EngineSample:
    """Ask the main shard's engine for its counters, keep them, and drop those of days ago."""
    stats = engine_stats(MAIN_SHARD)
    now = timezone.now()
    counters = {} if stats is None else {name: getattr(stats, name) for name in _COUNTERS}
    sample = EngineSample.objects.create(sampled_at=now, is_up=stats is not None, **counters)
    EngineSample.objects.filter(sampled_at__lt=now - SAMPLE_AGE_MAX).delete()
    return sample


def engine_stats(shard: str) -> StatsReply | None:
    """The counters of a shard's engine; None when it does not answer."""
    try:
        with blocking_client(shard) as client:
            return client.stats()
    except StoreError:
        return None
