"""A request that was sent and waits for its reply."""

from __future__ import annotations

from typing import Protocol

from storage_engine.errors import OutcomeUnknown, StoreError, StoreUnavailable
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.operations import AnyOperation
from storage_engine.wire.put_lane import PutLane, PutWaiter, fail_puts


class Call(Protocol):
    """Who waits for a reply: an ``asyncio.Future`` of its payload, or what does as one."""

    def done(self) -> bool: ...

    def set_result(self, payload: bytes, /) -> None: ...

    def set_exception(self, error: StoreError, /) -> None: ...


class InFlight:
    """``call`` is None when nobody waits; a PUT frame has ``puts`` and their ``lane`` instead.
    ``payload``: what was sent, where another engine may take over; it is sent to that one if this
    one refuses it because it stops, and, where ``may_repeat``, if the connection breaks.
    ``extra_wait_ms``: how long the engine may take on purpose.
    """

    __slots__ = (
        "call", "deadline_ms", "extra_wait_ms", "lane", "may_repeat", "op", "origin", "payload",
        "put_bytes", "puts",
    )  # fmt: skip

    lane: PutLane

    def __init__(
        self, op: AnyOperation, call: Call | None, deadline_ms: int, extra_wait_ms: int = 0
    ) -> None:
        self.op = op
        self.call = call
        self.deadline_ms = deadline_ms
        self.extra_wait_ms = extra_wait_ms
        self.origin: ReceiveRequest | None = None
        self.payload: bytes | None = None
        self.may_repeat = False
        self.puts: list[PutWaiter] = []
        self.put_bytes = 0

    @property
    def is_awaited(self) -> bool:
        """Whether somebody would be told of a reply."""
        return self.call is not None or bool(self.puts)


def no_reply(op: AnyOperation, reason: str) -> StoreError:
    """What a request that was sent ends with when no reply has come."""
    if op.is_harmless:
        return StoreUnavailable(reason)
    return OutcomeUnknown(reason)


def fail_entry(entry: InFlight, error: StoreError) -> None:
    """Tell whoever waits for this request that it failed."""
    if entry.call is not None and not entry.call.done():
        entry.call.set_exception(error)
    fail_puts(entry.puts, error)
