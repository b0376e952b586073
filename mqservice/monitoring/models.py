"""Rows of observations: heartbeats of background processes, samples of the engine."""

from __future__ import annotations

from django.db import models


class Heartbeat(models.Model):
    """When a kind of process last did its work, by PostgreSQL's clock. ``tick``: when the engine
    last took one.
    """

    process = models.CharField(max_length=32, unique=True)
    host = models.CharField(max_length=128)
    pid = models.PositiveIntegerField()
    beaten_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.process} at {self.beaten_at}"


class EngineSample(models.Model):
    """The engine's counters at one moment; all null when it did not answer.

    ``epoch`` changes at each start of the engine: counters are comparable within one epoch only.
    """

    sampled_at = models.DateTimeField(db_index=True)
    is_up = models.BooleanField()
    epoch = models.BigIntegerField(null=True)
    uptime_ms = models.BigIntegerField(null=True)
    put_count = models.BigIntegerField(null=True)
    put_bytes = models.BigIntegerField(null=True)
    delivered_count = models.BigIntegerField(null=True)
    acked_count = models.BigIntegerField(null=True)
    append_offset = models.BigIntegerField(null=True)
    flushed_offset = models.BigIntegerField(null=True)
    parked_count = models.IntegerField(null=True)
    connection_count = models.IntegerField(null=True)

    def __str__(self) -> str:
        return f"engine {'up' if self.is_up else 'down'} at {self.sampled_at}"
