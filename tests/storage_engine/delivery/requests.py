"""Receives with all their options, and settles, of group ``g`` on an open store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.deliveries import (
    AckUpTo,
    LeaseRef,
    Nack,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
)
from tests.storage_engine.doubles import OpenStore


class Asked:
    """One receive; ``answers`` has what came, at most once."""

    def __init__(
        self,
        store: OpenStore,
        count: int = 16,
        *,
        wait_ms: int = 0,
        lease_ms: int = 1_000,
        member_id: str = "m",
        attempt_id: str = "",
        auto_extend_ms: int = 0,
        client_id: str = "",
    ) -> None:
        self._store = store.store
        self._client_id = client_id
        self.answers: list[Delivered] = []
        request = ReceiveRequest(
            group="g", topic="t", member_id=member_id, messages_max=count, bytes_max=1 << 20,
            wait_ms=wait_ms, lease_ms=lease_ms, attempt_id=attempt_id,
            auto_extend_ms=auto_extend_ms, client_id=client_id,
        )  # fmt: skip
        self.parked: WaitingReceive | None = self._store.consumption.receive(
            request, self.answers.append
        )

    @property
    def answer(self) -> Delivered:
        [answer] = self.answers
        return answer

    @property
    def records(self) -> list[Record]:
        return decode_records(self._store.read_records(self.answer.records))

    @property
    def bodies(self) -> list[bytes]:
        return [record.body for record in self.records]

    def settle(
        self,
        *,
        up_to: bytes = b"",
        acks: tuple[bytes, ...] = (),
        nacks: tuple[bytes, ...] = (),
        is_release: bool = False,
        delay_ms: int = 0,
        member_id: str = "",
    ) -> SettleReply:
        """Messages of this answer, named by their bodies."""
        generation = self.answer.lease_generation
        places = {
            each.body: (each.topic, each.queue_id, each.queue_offset) for each in self.records
        }

        def ref(body: bytes) -> LeaseRef:
            topic, queue_id, offset = places[body]
            return LeaseRef(
                topic=topic, queue_id=queue_id, lease_generation=generation, queue_offsets=[offset]
            )

        def nack(body: bytes) -> Nack:
            topic, queue_id, offset = places[body]
            return Nack(
                topic=topic, queue_id=queue_id, lease_generation=generation, queue_offset=offset,
                delay_ms=delay_ms, is_release=is_release,
            )  # fmt: skip

        up_tos = []
        if up_to:
            topic, queue_id, offset = places[up_to]
            up_tos = [
                AckUpTo(
                    topic=topic, queue_id=queue_id, lease_generation=generation, queue_offset=offset
                )
            ]
        return self._store.consumption.settle(
            SettleRequest(
                group="g", acks=list(map(ref, acks)), nacks=list(map(nack, nacks)),
                ack_up_tos=up_tos, member_id=member_id, client_id=self._client_id,
            )
        )  # fmt: skip


@contextlib.asynccontextmanager
async def filled(store: OpenStore, count: int = 4, queues: int = 1) -> AsyncIterator[OpenStore]:
    """Open, with group ``g`` and ``count`` messages, dealt out over the queues."""
    async with store:
        store.topic(queues=queues)
        store.group()
        for index in range(count):
            await store.put_bodies(b"%d" % index, queue_id=index % queues)
        yield store


def unsettled(store: OpenStore) -> int:
    """Messages of the topic that group ``g`` has not settled."""
    queues = store.store.consumption.group_stats("g").queues
    return sum([each.ready_count + each.inflight_count for each in queues])
