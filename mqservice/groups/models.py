"""Consumer group rows: policy as tenants chose it. Leases and offsets are the engine's."""

from __future__ import annotations

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.engine_rows import EngineRow
from mqservice.groups.settings import (
    ASSIGNMENT,
    BATCH_PER_GROUP,
    CONSUME_TIMEOUT,
    DISPATCH,
    LEASE,
    MAX_ATTEMPTS,
    ORDERED,
    PAUSED,
    RECONSUME_FOR_EVER,
    RECONSUME_TIMES_MAX,
    RETRY,
    START_FROM,
    START_TIME,
    STRATEGY,
)
from mqservice.protocol.choices import StartFrom


class ConsumerGroup(EngineRow):
    """A named set of consumers that share the messages of the topics they read, or of which each
    client gets all of them. The columns from ``start_from`` on are those of ``settings``.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="groups")
    start_from = models.CharField(
        max_length=16,
        choices=[(kind.value, kind.value) for kind in StartFrom],
        default=START_FROM.default,
    )
    start_ms = models.PositiveBigIntegerField(default=START_TIME.default)  # epoch
    lease_ms = models.PositiveIntegerField(default=LEASE.default)
    consume_timeout_ms = models.PositiveIntegerField(default=CONSUME_TIMEOUT.default)
    max_reconsume_times = models.SmallIntegerField(default=MAX_ATTEMPTS.default)
    retry = models.JSONField(default=RETRY.default)
    is_paused = models.BooleanField(default=PAUSED.default)
    dispatch = models.CharField(max_length=16, default=DISPATCH.default)
    strategy = models.CharField(max_length=32, default=STRATEGY.default)
    assignment = models.JSONField(default=ASSIGNMENT.default)
    is_ordered = models.BooleanField(default=ORDERED.default)
    batch_per_group = models.PositiveSmallIntegerField(default=BATCH_PER_GROUP.default)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="group_name_unique"),
            models.CheckConstraint(
                condition=models.Q(lease_ms__gte=LEASE.low, lease_ms__lte=LEASE.high),
                name="group_lease_range",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    consume_timeout_ms__gte=CONSUME_TIMEOUT.low,
                    consume_timeout_ms__lte=CONSUME_TIMEOUT.high,
                ),
                name="group_consume_timeout_range",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    max_reconsume_times__gte=RECONSUME_FOR_EVER,
                    max_reconsume_times__lte=RECONSUME_TIMES_MAX,
                ),
                name="group_reconsume_range",
            ),
        )
