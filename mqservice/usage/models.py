"""Rows of usage: one per topic and hour, and one for what belongs to no topic.

``namespace`` and ``topic`` are names, so that what was used stays when they are deleted; both are
empty for calls of the control plane, of sockets, and those that were refused.
"""

from __future__ import annotations

from django.db import models

from mqservice.accounts.models import Tenant
from mqservice.lib.names import NAME_CHARS_MAX


class UsageHour(models.Model):
    """``hour_ms`` is the beginning of the hour, epoch ms. ``storage_bytes_max``: the most that was
    measured in it; NULL where nothing was.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    hour_ms = models.BigIntegerField()
    namespace = models.CharField(max_length=NAME_CHARS_MAX, blank=True)
    topic = models.CharField(max_length=NAME_CHARS_MAX, blank=True)
    messages_in = models.BigIntegerField(default=0)
    bytes_in = models.BigIntegerField(default=0)
    messages_out = models.BigIntegerField(default=0)
    bytes_out = models.BigIntegerField(default=0)
    api_calls = models.BigIntegerField(default=0)
    storage_bytes_max = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "hour_ms", "namespace", "topic"], name="usage_hour_once"
            ),
        )
        indexes = (models.Index(fields=["hour_ms"], name="usage_hour_at"),)

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.namespace}/{self.topic} at {self.hour_ms}"
