"""The trace of a message over REST: ``/v1/ns/{ns}/messages/{id}/trace``."""

from __future__ import annotations

from ninja import Router

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.groups.queries import get_group
from mqservice.lib.wire import refused
from mqservice.topics.queries import get_topic
from mqservice.traces.queries import find_trace
from mqservice.traces.schemas import TraceOut

ID_CHARS_MAX = 255
router = Router(tags=["traces"])


@router.get("/ns/{ns}/messages/{message_id}/trace", response=TraceOut)
def trace_message(
    request: AuthedRequest,
    ns: str,
    message_id: str,
    topic: str | None = None,
    group: str | None = None,
) -> TraceOut:
    """Trace a message: where it has been, and its current state for each group. Changes nothing.

    Up to three queries, and a call to the engine for what it does in 10 ms: one, mostly.
    """
    namespace = get_namespace(request.auth, ns)
    if topic is not None and group is not None:
        request.auth.require(Scope.CONSUME, Kind.GROUP, group)
    # Without a topic it is looked for in all of them.
    request.auth.require(Scope.CONSUME, None if topic is None else Kind.TOPIC, topic or "")
    if len(message_id) > ID_CHARS_MAX:
        detail = f"an ID must have at most {ID_CHARS_MAX} characters, found {len(message_id)}"
        raise refused("", detail)
    road = find_trace(
        namespace,
        message_id,
        topic=None if topic is None else get_topic(namespace, topic),
        group=None if group is None else get_group(namespace, group),
    )
    return TraceOut.of(message_id, road)
