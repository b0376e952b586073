"""Receives with an attempt ID, which can be repeated, or with leases that extend themselves.

    receive ──┬─ plain ──────────────────────────────────────────────▶ delivery
              ├─ attempt_id ──▶ attempts: answered before? waits? ───▶    │
              └─ auto_extend, or a member that asked for it before ──▶    │
    answer ◀── remembered, lease extended ◀────────────────────────────────┘

A plain one costs two comparisons more than without this. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from storage_engine.delivery.attempts import ReceiveAttempts
from storage_engine.delivery.auto_extend import AutoExtends
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.receive_limits import check_limits
from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.groups import GroupConfig


class Receiver:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, delivery: Delivery) -> None:
        self._config = parts.config
        self._delivery = delivery
        self._attempts = ReceiveAttempts(parts.clock, delivery.subscriptions)
        self._auto_extends = AutoExtends(parts.clock)

    def member_seen(self, group: str, member_id: str) -> None:
        """See ``AutoExtends.hear``."""
        self._auto_extends.member_seen(group, member_id)

    def receive(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> WaitingReceive | None:
        """See ``Delivery.receive``, which raises."""
        has_members = request.auto_extend_ms or len(self._auto_extends)
        if not (request.attempt_id or has_members):
            return self._delivery.receive(group, queues, request, answer)
        check_limits(self._config, request)
        if request.client_id:  # another client's members and attempts are others
            request = replace(request, group=group.group)
        if has_members:
            answer = self._auto_extends.member_seen_until_reply(request, answer)
        parked = (
            self._attempt(group, queues, request, answer)
            if request.attempt_id
            else self._delivery.receive(group, queues, request, answer)
        )
        if parked is not None and has_members:
            self._auto_extends.member_waits(request, parked)
        return parked

    def _attempt(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> WaitingReceive | None:
        self._delivery.join(group, queues, request)
        delivered = self._attempts.find_repeat(request)
        if delivered is not None:
            answer(delivered)
            return None
        answer = self._attempts.remembering(request, answer)
        waiting = self._attempts.waiting(request)
        if waiting is not None and request.wait_ms:
            parked: WaitingReceive | None = self._delivery.waiting_receives.replace(
                waiting, request, answer
            )
        else:
            if waiting is not None:
                self._delivery.waiting_receives.cancel(waiting, answer=True)
            parked = self._delivery.receive(group, queues, request, answer)
        if parked is not None:
            self._attempts.note_waiting(request, parked)
        return parked
