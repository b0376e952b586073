"""Bugs that only a network that is cut brings to light; each is in the processes of the service."""

from __future__ import annotations

from typing import Final

from storage_engine.client import LeaseRef, SettleRequest
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Networks that are cut", PLANTS)

_TESTS: Final = "tests/acceptance/partitions/test_partitions.py"


@planted(
    "mqservice.lib.database_options:database_options",
    f"{_TESTS}::test_the_control_plane_answers_while_postgresql_is_cut_off",
)
def database_waited_for_forever(real: Real, query: Thing, process: Thing) -> Thing:
    options = real(query, process)
    return {name: value for name, value in options.items() if not name.startswith(("keep", "tcp_"))}


@planted(
    "storage_engine.wire.async_client:AsyncStoreClient.receive",
    f"{_TESTS}::test_clients_that_are_cut_off_lose_nothing",
)
async def received_before_it_was_read(real: Real, client: Thing, request: Thing) -> Thing:
    received = await real(client, request)
    acks = [
        LeaseRef(
            topic=record.topic,
            queue_id=record.queue_id,
            lease_generation=received.head.lease_generation,
            queue_offsets=[record.queue_offset],
        )
        for record in received.records
    ]
    if acks:
        await client.settle(SettleRequest(group=request.group, acks=acks))
    return received


@planted(
    "mqservice.leader_lock:LeaderLock.check",
    f"{_TESTS}::test_workers_and_beat_continue_after_they_were_cut_off",
)
def leader_that_never_leads_again(real: Real, lock: Thing) -> Thing:
    if getattr(lock, "was_lost", False):
        return False
    had_it = lock.is_held
    has_it = real(lock)
    lock.was_lost = had_it and not has_it
    return has_it
