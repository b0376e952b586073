"""Consumer group rows: policy as tenants chose it. Leases and offsets are the engine's."""

from __future__ import annotations

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.groups.retry import stored_levels
from mqservice.lib.durations import HOUR_MS, SECOND_MS
from mqservice.lib.names import NAME_CHARS_MAX, engine_name
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, StartFrom

LEASE_MS_DEFAULT = 60 * SECOND_MS
LEASE_MS_MIN = 1 * SECOND_MS
LEASE_MS_MAX = 12 * HOUR_MS
CONSUME_TIMEOUT_MS_DEFAULT = 3 * HOUR_MS
CONSUME_TIMEOUT_MS_MIN = 10 * SECOND_MS
CONSUME_TIMEOUT_MS_MAX = 12 * HOUR_MS
RECONSUME_TIMES_DEFAULT = 16
RECONSUME_FOR_EVER = -1
RECONSUME_TIMES_MAX = 1_000  # of rows from before there were 1,000 attempts at most
ATTEMPTS_MAX = 1_000
BATCH_PER_GROUP_MAX = 32


class ConsumerGroup(models.Model):
    """A named set of consumers that share the messages of the topics they read, or of which each
    client gets all of them.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="groups")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    start_from = models.CharField(
        max_length=16,
        choices=[(kind.value, kind.value) for kind in StartFrom],
        default=StartFrom.EARLIEST.value,
    )
    start_ms = models.PositiveBigIntegerField(default=0)  # epoch; counts for TIMESTAMP only
    lease_ms = models.PositiveIntegerField(default=LEASE_MS_DEFAULT)
    consume_timeout_ms = models.PositiveIntegerField(default=CONSUME_TIMEOUT_MS_DEFAULT)
    max_reconsume_times = models.SmallIntegerField(default=RECONSUME_TIMES_DEFAULT)
    retry = models.JSONField(default=stored_levels)
    is_paused = models.BooleanField(default=False)
    dispatch = models.CharField(max_length=16, default=Dispatch.SHARED.value)
    strategy = models.CharField(max_length=32, default=AssignmentStrategy.AVG.value)
    assignment = models.JSONField(default=dict)  # the engine's form, see ``assignment.py``
    is_ordered = models.BooleanField(default=False)
    batch_per_group = models.PositiveSmallIntegerField(default=1)  # counts with shared dispatch
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="group_name_unique"),
            models.CheckConstraint(
                condition=models.Q(lease_ms__gte=LEASE_MS_MIN, lease_ms__lte=LEASE_MS_MAX),
                name="group_lease_range",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    consume_timeout_ms__gte=CONSUME_TIMEOUT_MS_MIN,
                    consume_timeout_ms__lte=CONSUME_TIMEOUT_MS_MAX,
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

    def __str__(self) -> str:
        return self.engine_name

    @property
    def engine_name(self) -> str:
        """Reads ``namespace``: one query unless it was selected along."""
        return engine_name(namespace=self.namespace.name, name=self.name)
