"""Quotas on the wire of the control plane."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field, create_model

from mqservice.quotas.limits import LIMIT_NAMES, QuotaLimits


def _limits(kind: Any, field: Any = ...) -> Any:  # reason: types and models made here
    """A schema with a field of this kind for each limit; ``field``: as pydantic has it."""
    fields: dict[str, Any] = dict.fromkeys(LIMIT_NAMES, (kind, field))
    return create_model("_Limits", __base__=Schema, **fields)


class LimitsOut(_limits(int)):  # type: ignore[misc]  # reason: made of the names
    """All limits; rates apply over all web processes together."""

    @classmethod
    def of(cls, limits: QuotaLimits) -> LimitsOut:
        return cls(**{name: getattr(limits, name) for name in LIMIT_NAMES})


class LimitsIn(_limits(int | None, Field(default=None, strict=True))):  # type: ignore[misc]  # reason: as above
    """Limits that the tenant lowers itself; null removes one, omitted ones are left unchanged."""

    model_config = ConfigDict(extra="forbid", strict=False)

    def change(self) -> dict[str, int | None]:
        """What was given, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class OwnLimitsOut(_limits(int | None, None)):  # type: ignore[misc]  # reason: as above
    """Limits that the tenant has set itself; null: not set."""


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
