"""Topic rows: what tenants chose. The engine knows a topic by its ``engine_name``."""

from __future__ import annotations

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.engine_rows import EngineRow
from mqservice.protocol.choices import Durability
from mqservice.topics.settings import (
    BODY_BYTES_MAX,
    DURABILITY,
    QUEUES,
    RETENTION,
    TYPE,
    MessageType,
)


class Topic(EngineRow):
    """A named set of queues. The columns from ``message_type`` on are those of ``settings``."""

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="topics")
    message_type = models.CharField(
        max_length=16,
        choices=[(kind.value, kind.value) for kind in MessageType],
        default=TYPE.default,
    )
    queue_count = models.PositiveSmallIntegerField(default=QUEUES.default)
    durability = models.CharField(
        max_length=16,
        choices=[(kind.value, kind.value) for kind in Durability],
        default=DURABILITY.default,
    )
    retention_age_ms = models.BigIntegerField(default=RETENTION.default)
    body_bytes_max = models.PositiveIntegerField(default=BODY_BYTES_MAX.default)
    sqs = models.JSONField(default=dict)  # ``QueueOptions``
    # Groups whose dead letters SQS has in this queue, because the policies of their queues name it.
    letter_sources = models.JSONField(default=list)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="topic_name_unique"),
            models.CheckConstraint(
                condition=models.Q(queue_count__gte=QUEUES.low, queue_count__lte=QUEUES.high),
                name="topic_queue_count_range",
            ),
        )
