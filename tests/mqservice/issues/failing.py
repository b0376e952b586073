"""Dead letters with reasons, on a real engine, and what issues say of them."""

from __future__ import annotations

from collections.abc import Sequence

from mqservice.issues.models import Issue
from mqservice.issues.scanning import Scanned, scan, scan_batch
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import (
    DeadLettersRequest,
    Nack,
    PurgeRequest,
    ReceiveRequest,
    RedriveRequest,
    SettleRequest,
    StoreMessage,
    blocking_client,
    encode_record,
    new_message_id,
)
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.tasks.desk import BYTES_MAX, Desk


def fail(desk: Desk, *reasons: str) -> list[str]:
    """As many messages are given up, one for each reason, in their order. Their ids."""
    ids = [new_message_id() for _ in reasons]
    there = letter_count(desk)
    with blocking_client(MAIN_SHARD) as client:
        client.put(
            [
                encode_record(
                    StoreMessage(
                        topic=desk.topic.engine_name, queue_id=0, body=b"x", tag=None, keys=[],
                        message_group=None, properties={}, born_timestamp_ms=1,
                        born_host=("127.0.0.1", 1), message_id=one,
                    )
                )
                for one in ids
            ]
        )  # fmt: skip
        given = 0
        while given < len(reasons):
            request = ReceiveRequest(
                group=desk.group.engine_name, topic=desk.topic.engine_name, member_id="m",
                messages_max=100, bytes_max=BYTES_MAX, wait_ms=30_000, lease_ms=60_000,
            )  # fmt: skip
            received = client.receive(request)
            assert received.records, f"{given} of {len(reasons)} were delivered"
            nacks = [
                Nack(
                    topic=record.topic,
                    queue_id=record.queue_id,
                    lease_generation=received.head.lease_generation,
                    queue_offset=record.queue_offset,
                    is_dead=True,
                    reason=reason,
                )
                for record, reason in zip(received.records, reasons[given:], strict=False)
            ]
            client.settle(SettleRequest(group=desk.group.engine_name, nacks=nacks))
            given += len(nacks)
    wait_until(lambda: letter_count(desk) == there + len(reasons))
    return ids


def letter_count(desk: Desk) -> int:
    """Dead letters that are there."""
    with blocking_client(MAIN_SHARD) as client:
        request = DeadLettersRequest(groups=[desk.group.engine_name])
        return client.dead_letters(request).counts[0].count


def redrive_all(desk: Desk) -> None:
    with blocking_client(MAIN_SHARD) as client:
        offsets = list(range(desk.dlq_size()))
        client.redrive(RedriveRequest(group=desk.group.engine_name, queue_offsets=offsets))


def drop(desk: Desk, offsets: Sequence[int]) -> None:
    with blocking_client(MAIN_SHARD) as client:
        client.purge(PurgeRequest(group=desk.group.engine_name, queue_offsets=list(offsets)))


def tick(desk: Desk) -> Scanned:
    """One tick over all groups of the engine that tests share."""
    with blocking_client(MAIN_SHARD) as client:
        return scan(client, desk.clock)


def tick_group(desk: Desk) -> tuple[int, bool]:
    """One batch of the desk's own group."""
    with blocking_client(MAIN_SHARD) as client:
        return scan_batch(client, desk.group, desk.clock.now_ms())


def counts(desk: Desk) -> dict[str, int]:
    """By cause, of the desk's group."""
    rows = Issue.objects.filter(namespace=desk.namespace, group_name=desk.group.name)
    return dict(rows.values_list("reason", "count"))
