"""What needs attention over REST: ``GET /v1/ns/{ns}/attention``."""

from __future__ import annotations

from ninja import Router

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.attention.items import attention_of
from mqservice.attention.schemas import AttentionItemOut, AttentionOut
from mqservice.lib.clock import SystemClock

router = Router(tags=["attention"])


@router.get("/ns/{ns}/attention", response=AttentionOut)
def read_attention(request: AuthedRequest, ns: str) -> AttentionOut:
    """Read what needs attention, the most urgent first: stalled groups, firing alerts, new dead
    letters, failing schedules and notifications, quotas near their end; each with its cause and
    what can be done. Twelve queries and a call to the engine."""
    namespace = get_namespace(request.auth, ns)
    items = attention_of(namespace, request.auth, SystemClock().now_ms())
    return AttentionOut(items=[AttentionItemOut.of(namespace.name, item) for item in items])
