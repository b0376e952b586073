"""The limits a tenant has, their names, defaults and ranges. Pure values.

    the service's own  ◀── the operator's defaults ◀── the operator's for this tenant
                                                        └─ lowered by what the tenant set itself

Rates are of the whole tenant, over all web processes. ``in`` is what is produced, ``out`` what is
read: received, pushed, pulled and browsed. Bytes are those of records on the way in, and of answers
and bodies on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB
TIB: Final = 1024 * 1024 * MIB
LIMIT_MIN: Final = 1
LIMIT_MAX: Final = 1 << 50


class QuotaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """All limits of one tenant. The defaults are what one engine on one machine can give."""

    messages_in_per_second: int = 100_000
    bytes_in_per_second: int = 256 * MIB
    messages_out_per_second: int = 200_000
    bytes_out_per_second: int = 512 * MIB
    topic_count_max: int = 10_000
    group_count_max: int = 10_000
    connection_count_max: int = 5_000  # WebSockets open at a time
    parked_poll_count_max: int = 10_000  # receives over REST under way at a time
    # Of records that can be read or are still to come, retries and dead letters included.
    storage_bytes_max: int = TIB
    inflight_count_max: int = 1_000_000  # messages leased and not settled
    control_requests_per_second: int = 200


DEFAULTS: Final = QuotaLimits()
LIMIT_NAMES: Final = tuple(field.name for field in msgspec.structs.fields(QuotaLimits))
Limits = Mapping[str, int | None]  # by name; None: nobody says


def effective(defaults: Limits, granted: Limits, own: Limits) -> QuotaLimits:
    """What holds: the operator's word for the tenant, else the default, never above the own one."""
    values = {}
    for name in LIMIT_NAMES:
        value = granted.get(name)
        if value is None:
            value = defaults.get(name)
        if value is None:
            value = getattr(DEFAULTS, name)
        lowered = own.get(name)
        values[name] = value if lowered is None else min(value, lowered)
    return QuotaLimits(**values)
