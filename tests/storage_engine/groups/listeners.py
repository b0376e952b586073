"""Clients of a broadcast group on an open store: each receives and settles for itself.

listener = Listener(store, "a") ──▶ receive, park, ack, nack, extend ──▶ Consumption
"""

from __future__ import annotations

from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.records.record_run import decode_records
from storage_engine.wire.deliveries import (
    LeaseRef,
    Nack,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
)
from storage_engine.wire.groups import (
    ClientStats,
    Dispatch,
    GroupClientsRequest,
    GroupConfig,
    StartFrom,
)
from tests.storage_engine.doubles import Leased, OpenStore

DAY_MS = 24 * 3_600_000


def broadcast(
    store: OpenStore, name: str = "g", start_from: StartFrom = StartFrom.EARLIEST
) -> None:
    """A group of which each client gets every message."""
    store.store.catalog.group_put(
        GroupConfig(group=name, dispatch=Dispatch.BROADCAST, start_from=start_from)
    )


async def filled(store: OpenStore, count: int = 3, queues: int = 1) -> None:
    """Topic ``t`` with messages ``0``, ``1``, …, and broadcast group ``g``."""
    store.topic(queues=queues)
    broadcast(store)
    for index in range(count):
        await store.put_bodies(b"%d" % index, queue_id=index % queues)


class Listener:
    """One client."""

    def __init__(
        self, store: OpenStore, client_id: str, *, group: str = "g", topic: str = "t"
    ) -> None:
        self.store = store
        self.client_id = client_id
        self.group = group
        self.topic = topic

    def park(
        self,
        count: int = 16,
        *,
        wait_ms: int = 10_000,
        lease_ms: int = 1_000,
        member_id: str = "m",
        tags: str = "",
    ) -> tuple[list[Leased], WaitingReceive | None]:
        """Receive; the list gets the answer when there is one."""
        answers: list[Leased] = []
        store = self.store.store

        def answered(delivered: Delivered) -> None:
            records = decode_records(store.read_records(delivered.records))
            answers.append(Leased(delivered.lease_generation, delivered.attempts, records))

        request = ReceiveRequest(
            group=self.group, topic=self.topic, member_id=member_id, messages_max=count,
            bytes_max=1 << 20, wait_ms=wait_ms, lease_ms=lease_ms, filter=tags,
            client_id=self.client_id,
        )  # fmt: skip
        return answers, store.consumption.receive(request, answered)

    def receive(self, count: int = 16, *, lease_ms: int = 1_000, tags: str = "") -> Leased:
        """What is ready now."""
        return self.park(count, wait_ms=0, lease_ms=lease_ms, tags=tags)[0][0]

    def ack(self, leased: Leased, *bodies: bytes) -> SettleReply:
        """All of what was leased, or what has these bodies."""
        acks = [
            LeaseRef(
                topic=record.topic,
                queue_id=record.queue_id,
                lease_generation=leased.generation,
                queue_offsets=[record.queue_offset],
            )
            for record in leased.records
            if not bodies or record.body in bodies
        ]
        return self.settle(SettleRequest(group=self.group, acks=acks, client_id=self.client_id))

    def nack(
        self, leased: Leased, *, is_dead: bool = False, is_release: bool = False
    ) -> SettleReply:
        nacks = [
            Nack(
                topic=record.topic,
                queue_id=record.queue_id,
                lease_generation=leased.generation,
                queue_offset=record.queue_offset,
                is_dead=is_dead,
                is_release=is_release,
            )
            for record in leased.records
        ]
        return self.settle(SettleRequest(group=self.group, nacks=nacks, client_id=self.client_id))

    def settle(self, request: SettleRequest) -> SettleReply:
        return self.store.store.consumption.settle(request)

    def take(self, count: int = 16) -> list[bytes]:
        """Receive and ack."""
        leased = self.receive(count)
        assert self.ack(leased).acked_count == len(leased.records)
        return leased.bodies

    def offsets(self) -> list[int]:
        """Its consumer offsets, by queue."""
        stats = self.store.store.consumption.group_stats(self.group, self.client_id)
        return [row.consumer_offset for row in stats.queues if row.topic == self.topic]

    @property
    def stats(self) -> ClientStats:
        (found,) = [each for each in clients(self.store) if each.client_id == self.client_id]
        return found


def clients(store: OpenStore, group: str = "g") -> list[ClientStats]:
    """The first thousand clients of a group."""
    request = GroupClientsRequest(group=group, count_max=1_000)
    return store.store.consumption.group_clients(request).clients
