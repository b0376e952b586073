"""Requests that show details to people: the trace of a message, the members of a group.

server ── op ──▶ [inspections(store)] ──▶ tracing, members

They change nothing. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from storage_engine.groups.group_members import members_of
from storage_engine.groups.message_trace import MessageTracer
from storage_engine.store import Store
from storage_engine.wire.groups import GroupRef
from storage_engine.wire.protocol import Op
from storage_engine.wire.struct import Wire
from storage_engine.wire.traces import TraceRequest


def inspection_calls(store: Store) -> dict[int, Callable[[Wire], Wire]]:
    """What answers each of these requests; the store must be open."""

    def trace(request: Wire) -> Wire:
        consumption = store.consumption
        tracing = MessageTracer(consumption.clock, store.queries, consumption)
        return tracing.trace(cast("TraceRequest", request))

    def members(request: Wire) -> Wire:
        consumption = store.consumption
        return members_of(consumption, cast("GroupRef", request).group)

    return {Op.TRACE: trace, Op.GROUP_MEMBERS: members}
