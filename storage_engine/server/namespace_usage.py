"""How much each namespace stores, for enforcing quotas.

    service ── USE ──▶ [NamespaceUsageCounter] ── bytes of topics and schedule, leases ──▶ reply

One pass over the names of all topics and of all subscriptions, and a look at the queues of the
namespaces that were asked for. Several processes ask about the same ones: an answer is given again
until fifty times as long has passed as it took, so that asking takes 2 % of the loop at most. Loop
thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from storage_engine.delivery.subscription import Subscriptions
from storage_engine.errors import BadRequest
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.stored_bytes import StoredBytes
from storage_engine.records.topic_names import namespace_of
from storage_engine.schedule.pending_bytes import PendingBytes
from storage_engine.wire.usage import NAMES_MAX, NamespaceUsage, UsageReply, UsageRequest

_COST_TIMES: Final = 50
_REPLIES_MAX: Final = 10_000


class NamespaceUsageCounter:
    """See the module's docstring. ``measured_ns`` is a clock for lengths of time."""

    def __init__(
        self,
        queues: ConsumeQueues,
        subscriptions: Subscriptions,
        measured_ns: Callable[[], int],
        stored: StoredBytes | None = None,
        pending: PendingBytes | None = None,
    ) -> None:
        self._queues = queues
        self._subscriptions = subscriptions
        self._measured_ns = measured_ns
        self._stored = stored or StoredBytes(queues)
        self._pending = pending
        self._namespaces: dict[bytes, str] = {}  # of topics
        self._replies: dict[str, tuple[int, NamespaceUsage]] = {}  # and until when they are good

    def usage(self, request: UsageRequest) -> UsageReply:
        """Raises ``BadRequest`` when too much is asked for at a time."""
        count = len(request.namespaces) + len(request.topics)
        if count > NAMES_MAX:
            raise BadRequest(f"the request has {count} names, at most {NAMES_MAX} are allowed")
        began_ns = self._measured_ns()
        self._stored.start_scan()
        topic_bytes = [self._stored.measure(topic.encode()) for topic in request.topics]
        known = self._replies
        wanted = {
            name for name in request.namespaces if name not in known or known[name][0] <= began_ns
        }
        fresh = self._measure(wanted) if wanted else {}
        is_complete = not self._stored.is_exhausted and not (
            self._pending is not None and self._pending.is_exhausted
        )
        if fresh and is_complete:
            ended_ns = self._measured_ns()
            good_until_ns = ended_ns + _COST_TIMES * (ended_ns - began_ns)
            if len(known) + len(fresh) > _REPLIES_MAX:
                known.clear()
            known.update({name: (good_until_ns, use) for name, use in fresh.items()})
        return UsageReply(
            namespaces=[
                fresh[name] if name in fresh else known[name][1] for name in request.namespaces
            ],
            topic_bytes=topic_bytes,
            is_complete=is_complete,
        )

    def _measure(self, wanted: set[str]) -> dict[str, NamespaceUsage]:
        stored_bytes = dict.fromkeys(wanted, 0)
        if self._pending is not None:
            self._pending.scan()
            stored_bytes = {name: self._pending.measure(name) for name in wanted}
        names = self._namespaces
        if len(names) > 2 * len(self._queues.by_topic):
            names.clear()
        for topic in self._queues.by_topic:
            namespace = names.get(topic)
            if namespace is None:
                namespace = names[topic] = namespace_of(topic.decode())
            if namespace in wanted:
                stored_bytes[namespace] += self._stored.measure(topic)
        inflight = self._subscriptions.inflight_counts(wanted)
        return {name: NamespaceUsage(stored_bytes[name], inflight.get(name, 0)) for name in wanted}
