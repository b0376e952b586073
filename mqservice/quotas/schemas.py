"""Quotas on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict, Field

from mqservice.quotas.limits import QuotaLimits


class LimitsOut(Schema):
    """All limits; rates apply over all web processes together."""

    messages_in_per_second: int
    bytes_in_per_second: int
    messages_out_per_second: int
    bytes_out_per_second: int
    topic_count_max: int
    group_count_max: int
    connection_count_max: int
    parked_poll_count_max: int
    storage_bytes_max: int
    inflight_count_max: int
    control_requests_per_second: int

    @classmethod
    def of(cls, limits: QuotaLimits) -> LimitsOut:
        return cls(**{name: getattr(limits, name) for name in cls.model_fields})


class LimitsIn(Schema):
    """Limits that the tenant lowers itself; null removes one, omitted ones are left unchanged."""

    model_config = ConfigDict(extra="forbid", strict=False)

    messages_in_per_second: int | None = Field(default=None, strict=True)
    bytes_in_per_second: int | None = Field(default=None, strict=True)
    messages_out_per_second: int | None = Field(default=None, strict=True)
    bytes_out_per_second: int | None = Field(default=None, strict=True)
    topic_count_max: int | None = Field(default=None, strict=True)
    group_count_max: int | None = Field(default=None, strict=True)
    connection_count_max: int | None = Field(default=None, strict=True)
    parked_poll_count_max: int | None = Field(default=None, strict=True)
    storage_bytes_max: int | None = Field(default=None, strict=True)
    inflight_count_max: int | None = Field(default=None, strict=True)
    control_requests_per_second: int | None = Field(default=None, strict=True)

    def change(self) -> dict[str, int | None]:
        """What was given, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class OwnLimitsOut(Schema):
    """Limits that the tenant has set itself; null: not set."""

    messages_in_per_second: int | None = None
    bytes_in_per_second: int | None = None
    messages_out_per_second: int | None = None
    bytes_out_per_second: int | None = None
    topic_count_max: int | None = None
    group_count_max: int | None = None
    connection_count_max: int | None = None
    parked_poll_count_max: int | None = None
    storage_bytes_max: int | None = None
    inflight_count_max: int | None = None
    control_requests_per_second: int | None = None


class UsageOut(Schema):
    """Current use. Rates are those of about the last second, including rejected attempts; null if
    this process has not served the tenant lately. Values of the engine are null while it is not
    responding."""

    messages_in_per_second: int | None = None
    bytes_in_per_second: int | None = None
    messages_out_per_second: int | None = None
    bytes_out_per_second: int | None = None
    topic_count: int
    group_count: int
    connection_count: int | None = None
    parked_poll_count: int | None = None
    storage_bytes: int | None = None
    inflight_count: int | None = None


class QuotasOut(Schema):
    """`limits` are those that apply: what is granted, or less if `own` says so."""

    tenant: str
    limits: LimitsOut
    own: OwnLimitsOut
    usage: UsageOut
