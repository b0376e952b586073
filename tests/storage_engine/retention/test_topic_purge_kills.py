"""A topic is purged while producers and a consumer work and the engine is killed with -9.

What was answered to its producer before a purge began, and not delivered by then, must not come
once that purge was answered; what was sent after an answer must come, whatever was killed.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable

from storage_engine.client import (
    GroupConfig,
    LeaseRef,
    ReceiveRequest,
    SettleRequest,
    StoreClient,
    StoreError,
    StoreMessage,
    TopicConfig,
    TopicPurgeRequest,
    TopicRef,
    encode_record,
    new_message_id,
)
from tests.storage_engine.engines import Engine

QUEUES = 2
ROUNDS = 5
PUTS_A_ROUND = 40
LEASE_MS = 1_000
DRAIN_MS = 1_500  # longer than a lease: what somebody held when the engine was killed comes too


class Run:
    """One engine, its clients, and what they were told; bodies are ``round number``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.delivered: list[tuple[int, bytes]] = []  # (purges answered by then, body)
        self.answered_purges = 0
        self.acked: dict[int, set[bytes]] = {}
        self.draw = random.Random(7)

    def put(self, client: StoreClient, round_number: int, number: int) -> None:
        body = b"%d %d" % (round_number, number)
        record = encode_record(
            StoreMessage(
                topic="t", queue_id=number % QUEUES, body=body, tag=None, keys=[],
                message_group=None, properties={}, born_timestamp_ms=1,
                born_host=("127.0.0.1", 1), message_id=new_message_id(),
            )
        )  # fmt: skip
        (result,) = client.put([record])
        if result.error is None:
            self.acked.setdefault(round_number, set()).add(body)

    def consume(self, client: StoreClient, wait_ms: int = 20) -> int:
        """Receive and ack; how many came."""
        purges = self.answered_purges
        received = client.receive(
            ReceiveRequest(
                group="g", topic="t", member_id="m", messages_max=8, bytes_max=1 << 20,
                wait_ms=wait_ms, lease_ms=LEASE_MS,
            )
        )  # fmt: skip
        self.delivered += [(purges, record.body) for record in received.records]
        acks = [
            LeaseRef(
                topic=record.topic, queue_id=record.queue_id, queue_offsets=[record.queue_offset],
                lease_generation=received.head.lease_generation,
            )
            for record in received.records
        ]  # fmt: skip
        if acks:
            client.settle(SettleRequest(group="g", acks=acks))
        return len(acks)

    def until_failed(self, work: Callable[[StoreClient], object]) -> threading.Thread:
        """Do it again and again, until the engine is gone."""

        def run() -> None:
            with contextlib.suppress(StoreError), self.engine.client() as client:
                while True:
                    work(client)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


def test_purges_hold_over_kills_while_messages_come_and_go() -> None:
    with Engine(MQ_ENGINE_LEASE_MS_MIN="100") as engine:
        run = Run(engine)
        with engine.client() as client:
            client.topic_put(TopicConfig(topic="t", queue_count=QUEUES))
            client.group_put(GroupConfig(group="g"))
        for round_number in range(ROUNDS):
            with engine.client() as client:
                for number in range(PUTS_A_ROUND):
                    run.put(client, round_number, number)
            threads = [run.until_failed(run.consume)]
            purged = threading.Event()

            def purge(client: StoreClient, purged: threading.Event = purged) -> None:
                if purged.is_set():
                    client.ping()
                    return
                client.topic_purge(TopicPurgeRequest(topic="t"))
                run.answered_purges = round_number + 1  # noqa: B023  # ended before the next round
                purged.set()

            threads.append(run.until_failed(purge))
            purged.wait(run.draw.choice((0.0, 0.001, 0.003, 5.0)))
            engine.kill()
            for thread in threads:
                thread.join(10)
            engine.start()
            with engine.client() as client:
                if purged.is_set():
                    stats = client.topic_stats(TopicRef(topic="t")).queues
                    assert [queue.max_offset - queue.min_offset for queue in stats] == [0, 0]
        answered = run.answered_purges
        with engine.client() as client:
            for number in range(PUTS_A_ROUND):
                run.put(client, ROUNDS, number)
            while run.consume(client, wait_ms=DRAIN_MS):
                pass
        assert answered > 0
        late = [(purges, body) for purges, body in run.delivered if int(body.split()[0]) < purges]
        assert late == []
        assert run.acked[ROUNDS] <= {body for _, body in run.delivered}
        assert sum(map(len, run.acked.values())) == (ROUNDS + 1) * PUTS_A_ROUND
