"""Lets namespaces go to another shard: holds them, and deletes what is left of them here.

    server ── hold ──▶ [MovingNamespaces] ──▶ catalog: puts are refused; waiting receives end, empty
    server ── drop, once the other shard serves them ──▶ deletions: their topics and groups
    server ── discard, at the other shard, if it came to nothing ─┘

The copy that the other shard begins with is taken while they are held, and has all that was
acknowledged: what comes later is refused (the server looks at each request, the put path at each
record), and what the engine does by itself meanwhile, moves of retries and of due messages, only
counts here, where nobody will read it. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.disk.adopted_store import (
    discarded_number_of,
    split_number_of,
    write_discarded_number,
)
from storage_engine.records.topic_names import namespace_of
from storage_engine.wire.namespaces import (
    NamespaceDropReply,
    NamespaceDropRequest,
    NamespaceHoldRequest,
    NamespaceReleaseRequest,
    StoreDiscardRequest,
)
from storage_engine.wire.protocol import Empty


class MovingNamespaces:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        catalog: Catalog,
        delivery: Delivery,
        delete_namespaces: Callable[[Callable[[str], bool]], tuple[int, int]],
    ) -> None:
        self._files = parts.files
        self._store = parts.config.store_path
        self._catalog = catalog
        self._delivery = delivery
        self._delete_namespaces = delete_namespaces

    def hold(self, request: NamespaceHoldRequest) -> Empty:
        """Durable on return; what was put before may not be, see ``Store.move``.

        Raises ``BadRequest``: the attempt is over; ``DiskFull``.
        """
        self._catalog.hold(request.namespaces, request.number)
        held = frozenset(request.namespaces)
        for subscription in list(self._delivery.subscriptions):
            if namespace_of(subscription.group) in held:
                for waiting in list(subscription.waiting_receives):
                    self._delivery.waiting_receives.finish(waiting)
        return Empty()

    def release(self, request: NamespaceReleaseRequest) -> Empty:
        """Durable on return. Raises ``DiskFull``."""
        self._catalog.release(request.number)
        return Empty()

    def drop(self, request: NamespaceDropRequest) -> NamespaceDropReply:
        """Durable on return; deletes nothing that is not held by that number, and may be repeated.

        Costs as much as deleting one topic, and a little for each queue. Raises ``DiskFull``,
        ``SyncFailed``.
        """
        holds = self._catalog.holds
        gone = holds.namespaces_of(request.number)
        topic_count, group_count = self._delete_namespaces(lambda name: name in gone)
        holds.set_moved(request.number)
        return NamespaceDropReply(topic_count=topic_count, group_count=group_count)

    def discard(self, request: StoreDiscardRequest) -> Empty:
        """Durable on return. Deletes only the first time: whoever asks again, or late, does not
        know what has come here since. Costs and raises as ``drop``.
        """
        if request.number > discarded_number_of(self._store):
            if split_number_of(self._store) == request.number:
                copied = frozenset(request.namespaces)
                self._delete_namespaces(lambda name: name in copied)
            write_discarded_number(self._files, self._store, request.number)
        return Empty()
