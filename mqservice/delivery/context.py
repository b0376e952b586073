"""Shared by all handlers of the data plane: the store, the caches, and the clock."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping, MutableMapping
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any, Final, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings

from mqservice.accounts.key_failures import KeyFailures, failures
from mqservice.accounts.tickets import Tickets
from mqservice.caches import Caches, caches
from mqservice.delivery.drain import Drain
from mqservice.delivery.origins import Origins
from mqservice.delivery.queues import QueueChooser
from mqservice.delivery.sessions import Sessions, SessionTimes, SocketLimits
from mqservice.delivery.spans import DeliverySpans
from mqservice.delivery.tokens.cursors import Cursors
from mqservice.delivery.tokens.recall_handles import RecallHandles
from mqservice.delivery.tokens.receipts import Receipts
from mqservice.delivery.tokens.resume_tokens import ResumeTokens
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.problem import Problem
from mqservice.lib.signing import Signer
from mqservice.quotas.exchange import ValkeyExchange
from mqservice.quotas.limits import DEFAULTS, QuotaLimits
from mqservice.quotas.meters import Meters
from mqservice.store import Store, get_stores
from mqservice.tracing import tracing_from
from mqservice.web.socket_budget import Debts

T = TypeVar("T")
Scope = MutableMapping[str, Any]  # Any: as ASGI has it
UNAUTHENTICATED_STATUS: Final = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext:
    """One per process, or one per test."""

    stores: Mapping[str, Store]  # by shard, which every route says
    caches: Caches
    receipts: Receipts
    cursors: Cursors
    recall_handles: RecallHandles
    queues: QueueChooser
    clock: Clock
    drain: Drain
    resume_tokens: ResumeTokens
    times: SessionTimes = field(default_factory=SessionTimes)
    sessions: Sessions = field(default_factory=Sessions)
    debts: Debts = field(default_factory=Debts)
    origins: Origins = field(default_factory=Origins)
    failures: KeyFailures = failures
    tickets: Tickets = field(default_factory=lambda: Tickets(settings.MQ_VALKEY_URL))
    meters: Meters = field(default_factory=lambda: Meters(_default_limits, SystemClock()))
    spans: DeliverySpans | None = None  # None: tracing is off


async def counted(context: DeliveryContext, scope: Scope, found: Awaitable[T]) -> T:
    """Who asks, by credentials that are not cached; wrong ones are counted by address.

    Raises Problem: 429 for a wrong one after too many, and whatever ``found`` raises.
    """
    try:
        return await found
    except Problem as problem:
        if problem.status == UNAUTHENTICATED_STATUS:
            await count_failure(context, scope)
        raise


async def count_failure(context: DeliveryContext, scope: Scope) -> None:
    """Count a wrong credential by its address. Raises Problem: 429 after too many."""
    client = scope.get("client")
    address = client[0] if client else ""
    context.failures.check(address)
    await sync_to_async(context.failures.note, thread_sensitive=False)(address)


async def _default_limits(tenant_id: int) -> QuotaLimits:
    return DEFAULTS


def process_context() -> DeliveryContext:
    """The context of this process. Needs a running loop, on which it is used from then on."""
    tracing = tracing_from(os.environ)
    return DeliveryContext(
        stores=get_stores(),
        caches=caches,
        receipts=Receipts(
            Signer(settings.SECRET_KEY, "receipt", settings.SECRET_KEY_FALLBACKS),
        ),
        cursors=Cursors(Signer(settings.SECRET_KEY, "cursor", settings.SECRET_KEY_FALLBACKS)),
        recall_handles=RecallHandles(
            Signer(settings.SECRET_KEY, "recall handle", settings.SECRET_KEY_FALLBACKS)
        ),
        queues=QueueChooser(SystemRandom()),
        clock=SystemClock(),
        drain=Drain(),
        resume_tokens=ResumeTokens(
            Signer(settings.SECRET_KEY, "resume", settings.SECRET_KEY_FALLBACKS)
        ),
        sessions=Sessions(
            SocketLimits(
                sockets_max=settings.MQ_SOCKETS_MAX,
                tenant_sockets_max=settings.MQ_TENANT_SOCKETS_MAX,
            )
        ),
        origins=Origins(settings.MQ_BASE_URL, settings.MQ_SOCKET_ORIGINS),
        meters=Meters(
            caches.quotas.load,
            SystemClock(),
            exchange=ValkeyExchange(settings.MQ_VALKEY_URL),
            process_count=settings.MQ_WEB_WORKERS,
        ),
        spans=None if tracing is None else DeliverySpans(tracing),
    )
