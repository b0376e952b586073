"""How much of each limit a tenant uses, and whether that is near its end.

limits_of, usage_of ──▶ a QuotaUse for each limit ──▶ usage page, list of what needs attention
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from mqservice.quotas.limits import LIMIT_NAMES
from mqservice.quotas.queries import limits_of
from mqservice.quotas.usage import usage_of

HIGH_PERCENT: Final = 80


class QuotaLevel(enum.StrEnum):
    """FULL: what comes now is rejected or waits. UNKNOWN: nobody counts, or knows now."""

    FREE = "free"
    HIGH = "high"
    FULL = "full"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """``name``: of ``QuotaLimits``; ``used`` is None while nobody knows."""

    name: str
    used: int | None
    limit: int

    @property
    def percent(self) -> float:
        return min(100.0, 100 * (self.used or 0) / self.limit)

    @property
    def level(self) -> QuotaLevel:
        if self.used is None:
            return QuotaLevel.UNKNOWN
        if self.used >= self.limit:
            return QuotaLevel.FULL
        return QuotaLevel.HIGH if self.percent >= HIGH_PERCENT else QuotaLevel.FREE


def quota_uses(tenant_id: int) -> list[QuotaUse]:
    """In the order of ``LIMIT_NAMES``. Four queries and a call to the engine."""
    limits, usage = limits_of(tenant_id), usage_of(tenant_id)
    return [
        QuotaUse(
            name=name,
            used=getattr(usage, name.removesuffix("_max"), None),
            limit=getattr(limits, name),
        )
        for name in LIMIT_NAMES
    ]
