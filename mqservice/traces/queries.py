"""Requests the trace of a message from the engine, part by part.

namespace, id ──▶ [find_trace] ─ TRACE, after which topic ──▶ engine
                      ◀── hops, groups ── as many parts as its time a call makes of it ──┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.errors import problem_from_store
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.store import (
    StoreError,
    TracedGroup,
    TraceHop,
    TraceReply,
    TraceRequest,
    TraceState,
    blocking_client,
)
from mqservice.topics.models import Topic

# Of about 10 ms of the engine each; topics behind are not looked through.
PARTS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """``is_complete``: nothing is missing, as far as anybody can know."""

    hops: list[TraceHop]
    groups: list[TracedGroup]
    is_complete: bool


def find_trace(
    namespace: Namespace, message_id: str, *, topic: Topic | None, group: ConsumerGroup | None
) -> MessageTrace:
    """All records of the message in the namespace, and what it is to each group.

    Raises Problem: MESSAGE_NOT_FOUND, or what the engine's failure means.
    """
    hops: dict[int, TraceHop] = {}
    groups: list[TracedGroup] = []
    is_complete = True
    after = ""
    try:
        with blocking_client(namespace.shard) as client:
            for _ in range(PARTS_MAX):
                reply: TraceReply = client.trace(
                    TraceRequest(
                        namespace=namespace.name,
                        message_id=message_id,
                        topic=topic.engine_name if topic else "",
                        group=group.engine_name if group else "",
                        after=after,
                    )
                )
                hops.update({hop.physical_offset: hop for hop in reply.hops})
                groups += reply.groups
                is_complete = is_complete and reply.is_complete
                after = reply.after
                if not after:
                    break
    except StoreError as exc:
        raise problem_from_store(exc) from exc
    is_complete = is_complete and not after
    if not hops:
        where = namespace.name if topic is None else topic.name
        detail = f"{where} has no message with this ID; it never existed or has expired"
        if not is_complete:
            detail = "no message with this ID was found, but not all messages could be searched"
        raise Problem.of("MESSAGE_NOT_FOUND", detail, retryable=not is_complete)
    return MessageTrace(hops=list(hops.values()), groups=groups, is_complete=is_complete)


def was_redriven(road: MessageTrace, group: TracedGroup) -> bool:
    """Of a dead letter that is gone: whether it was sent on its way, not dropped."""
    return group.state is TraceState.GONE and any(
        hop.from_topic == group.place_topic and hop.from_offset == group.queue_offset
        for hop in road.hops
    )
