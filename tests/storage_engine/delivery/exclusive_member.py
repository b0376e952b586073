"""A member of an exclusive group on topic ``t``, for tests of who reads which queue."""

from __future__ import annotations

from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.records.record_run import decode_records
from storage_engine.wire.deliveries import ReceiveRequest
from tests.storage_engine.doubles import OpenStore


class Member:
    """Receives for one member; remembers what it got."""

    def __init__(self, store: OpenStore, name: str) -> None:
        self.store = store
        self.name = name
        self.got: list[Delivered] = []

    def poll(
        self, count: int = 16, *, wait_ms: int = 0, lease_ms: int = 1_000
    ) -> WaitingReceive | None:
        request = ReceiveRequest(
            group="g", topic="t", member_id=self.name, messages_max=count, bytes_max=1 << 20,
            wait_ms=wait_ms, lease_ms=lease_ms,
        )  # fmt: skip
        return self.store.store.consumption.receive(request, self.got.append)

    def bodies(self) -> list[bytes]:
        """Of all answers so far, which are forgotten."""
        answers = self.got.copy()
        self.got.clear()
        content = [self.store.store.read_records(answer.records) for answer in answers]
        return [record.body for each in content for record in decode_records(each)]

    def queues(self) -> set[int]:
        return {int(body.split(b"/")[0]) for body in self.bodies()}

    def leave(self) -> None:
        self.store.store.consumption.delivery.leave("g", "t", self.name)
