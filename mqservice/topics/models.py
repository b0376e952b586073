"""Topic rows: what tenants chose. The engine knows a topic by its ``engine_name``."""

from __future__ import annotations

import enum

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.lib.durations import DAY_MS
from mqservice.lib.names import NAME_CHARS_MAX, engine_name
from mqservice.protocol.choices import Durability

QUEUE_COUNT_DEFAULT = 4
QUEUE_COUNT_MAX = 256
RETENTION_AGE_MS_DEFAULT = 3 * DAY_MS
RETENTION_AGE_MS_MIN = 60_000
RETENTION_AGE_MS_MAX = 30 * DAY_MS
BODY_BYTES_MAX_DEFAULT = 4 * 1024 * 1024
BODY_BYTES_MAX_MIN = 1024
BODY_BYTES_MAX_MAX = 4 * 1024 * 1024


class MessageType(enum.StrEnum):
    """Which kind of message a topic takes; MIXED takes all.

    TRANSACTION cannot be chosen while there are no transactions. Topics that have it from before
    keep it, and take plain messages.
    """

    MIXED = "mixed"
    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"


NEW_TYPES = tuple(kind for kind in MessageType if kind is not MessageType.TRANSACTION)


class Topic(models.Model):
    """A named set of queues. ``revision`` counts changes and becomes the ETag."""

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="topics")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    message_type = models.CharField(
        max_length=16,
        choices=[(kind.value, kind.value) for kind in MessageType],
        default=MessageType.MIXED.value,
    )
    queue_count = models.PositiveSmallIntegerField(default=QUEUE_COUNT_DEFAULT)
    durability = models.CharField(
        max_length=8,
        choices=[(kind.value, kind.value) for kind in Durability],
        default=Durability.SYNC.value,
    )
    retention_age_ms = models.BigIntegerField(default=RETENTION_AGE_MS_DEFAULT)
    body_bytes_max = models.PositiveIntegerField(default=BODY_BYTES_MAX_DEFAULT)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="topic_name_unique"),
            models.CheckConstraint(
                condition=models.Q(queue_count__gte=1, queue_count__lte=QUEUE_COUNT_MAX),
                name="topic_queue_count_range",
            ),
        )

    def __str__(self) -> str:
        return self.engine_name

    @property
    def engine_name(self) -> str:
        """Reads ``namespace``: one query unless it was selected along."""
        return engine_name(namespace=self.namespace.name, name=self.name)
