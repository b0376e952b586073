"""Rows of limits: the operator's defaults, the operator's limits for one tenant, and the tenant's
own.

    tenant   source     what it says
    none     operator   the default of every tenant
    one      operator   what this tenant is granted instead
    one      tenant     what the tenant lowers by itself; never raises anything

A limit that is NULL is not said. Web processes hear of a change by NOTIFY.
"""

from __future__ import annotations

import enum
from typing import ClassVar

from django.db import models

from mqservice.accounts.models import Tenant
from mqservice.quotas.limits import LIMIT_NAMES


class Source(enum.StrEnum):
    """Who has set it."""

    OPERATOR = "operator"
    TENANT = "tenant"


class QuotaRow(models.Model):
    """One word on limits; see the module's docstring. ``revision`` becomes the ETag."""

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, related_name="quota_rows", null=True, blank=True
    )
    source = models.CharField(
        max_length=16, choices=[(source.value, source.value) for source in Source]
    )
    messages_in_per_second = models.BigIntegerField(null=True, blank=True)
    bytes_in_per_second = models.BigIntegerField(null=True, blank=True)
    messages_out_per_second = models.BigIntegerField(null=True, blank=True)
    bytes_out_per_second = models.BigIntegerField(null=True, blank=True)
    topic_count_max = models.BigIntegerField(null=True, blank=True)
    group_count_max = models.BigIntegerField(null=True, blank=True)
    connection_count_max = models.BigIntegerField(null=True, blank=True)
    parked_poll_count_max = models.BigIntegerField(null=True, blank=True)
    storage_bytes_max = models.BigIntegerField(null=True, blank=True)
    inflight_count_max = models.BigIntegerField(null=True, blank=True)
    control_requests_per_second = models.BigIntegerField(null=True, blank=True)
    revision = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "source"], nulls_distinct=False, name="quota_row_once"
            ),
            models.CheckConstraint(
                condition=models.Q(tenant__isnull=False) | models.Q(source=Source.OPERATOR.value),
                name="quota_default_is_operators",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source} of {self.tenant_id}"

    @property
    def limits(self) -> dict[str, int | None]:
        """By name; None: not said."""
        return {name: getattr(self, name) for name in LIMIT_NAMES}
