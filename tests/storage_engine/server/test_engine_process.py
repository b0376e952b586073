"""The real process and its real socket: both clients, kill -9, reconnecting, giving back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from pathlib import Path

import msgspec
import pytest

from storage_engine.client import (
    AsyncStoreClient,
    ClientConfig,
    Durability,
    GroupConfig,
    LeaseRef,
    OutcomeUnknown,
    QueueNotFound,
    ReceiveRequest,
    SettleRequest,
    ShuttingDown,
    StoreError,
    StoreUnavailable,
    TopicConfig,
    encode_record,
)
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.engines import RECONNECT, Engine, engine_with_topic, pull_all


def receive_request(count: int = 100, wait_ms: int = 0, lease_ms: int = 60_000) -> ReceiveRequest:
    return ReceiveRequest(
        group="g", topic="t", member_id="m", messages_max=count, bytes_max=1 << 20,
        wait_ms=wait_ms, lease_ms=lease_ms,
    )  # fmt: skip


def test_the_blocking_client_goes_the_whole_way() -> None:
    with engine_with_topic() as engine, engine.client() as client:
        client.group_put(GroupConfig(group="g"))
        results = client.put([encode_record(message(b"a")), encode_record(message(b"b"))])
        assert [(r.queue_offset, r.error) for r in results] == [(0, None), (1, None)]
        (refused,) = client.put([encode_record(message(b"c", queue_id=2))])
        assert isinstance(refused.error, QueueNotFound)
        assert pull_all(client, 0) == [b"a", b"b"]
        received = client.receive(receive_request())
        assert [record.body for record in received.records] == [b"a", b"b"]
        assert received.head.attempts == [1, 1]
        ref = LeaseRef(
            topic="t", queue_id=0, lease_generation=received.head.lease_generation,
            queue_offsets=[0, 1],
        )  # fmt: skip
        reply = client.settle(SettleRequest(group="g", acks=[ref]))
        assert (reply.acked_count, reply.failures) == (2, [])
        stats = client.stats()
        assert (stats.put_count, stats.delivered_count, stats.acked_count) == (2, 2, 2)
        assert stats.pid == engine.pid
        checkpoint = client.checkpoint()
        assert checkpoint.flushed_offset == client.stats().append_offset
        assert [topic.topic for topic in client.topic_list().topics] == ["t"]
        assert [group.group for group in client.group_list().groups] == ["g"]
        with pytest.raises(StoreError):
            client.topic_put(TopicConfig(topic="../etc", queue_count=1))


def test_the_asyncio_client_goes_the_whole_way() -> None:
    async def scenario(engine: Engine) -> None:
        client = AsyncStoreClient(engine.socket, client_name="test")
        await client.wait_connected(10_000)
        await client.group_put(GroupConfig(group="g"))
        waiting = asyncio.ensure_future(client.receive(receive_request(wait_ms=10_000)))
        await client.ping()
        puts = [client.put([encode_record(message(b"%d" % i))]) for i in range(50)]
        results = [result for future in puts for result in await future]
        assert [result.queue_offset for result in results] == list(range(50))
        first = await waiting
        rest = await client.receive(receive_request())
        assert [r.queue_offset for r in first.records + rest.records] == list(range(50))
        await client.aclose()
        with pytest.raises(ShuttingDown):
            await client.put([encode_record(message(b"late"))])

    with engine_with_topic() as engine:
        asyncio.run(scenario(engine))


def test_kill_9_in_the_middle_of_puts_loses_nothing_and_reuses_no_offset() -> None:
    """Six kills; each acknowledged message stays at its offset, for ever."""
    chance = random.Random(7)
    known: dict[tuple[int, int], bytes] = {}

    async def load(engine: Engine, round_: int) -> None:
        client = AsyncStoreClient(engine.socket, client_name="load", config=RECONNECT)
        await client.wait_connected(10_000)
        acknowledged = 0
        enough = asyncio.Event()
        kill_after = chance.randrange(50, 2_000)

        async def produce(number: int) -> None:
            nonlocal acknowledged
            for index in range(100_000):
                body = b"%d/%d/%d/" % (round_, number, index) + bytes(chance.randrange(800))
                try:
                    (result,) = await client.put(
                        [encode_record(message(body, queue_id=number % 2))]
                    )
                except (OutcomeUnknown, StoreUnavailable):
                    return
                assert result.error is None
                place = (number % 2, result.queue_offset)
                assert place not in known
                known[place] = body
                acknowledged += 1
                if acknowledged >= kill_after:
                    enough.set()

        producers = [asyncio.ensure_future(produce(number)) for number in range(16)]
        await asyncio.wait_for(enough.wait(), 60)
        engine.kill()
        await asyncio.gather(*producers)
        await client.aclose()

    with engine_with_topic() as engine:
        for round_ in range(6):
            asyncio.run(load(engine, round_))
            engine.start()
            with engine.client() as client:
                stored = {
                    (queue_id, at): body
                    for queue_id in (0, 1)
                    for at, body in enumerate(pull_all(client, queue_id))
                }
            assert {place: stored.get(place) for place in known} == known
            known = stored  # seen by a consumer now: this too must never change
        assert engine.stop() == 0


def test_an_async_message_becomes_durable_without_anybody_asking() -> None:
    with engine_with_topic() as engine, engine.client() as client:
        client.topic_put(TopicConfig(topic="a", queue_count=1, durability=Durability.ASYNC))
        client.put([encode_record(message(b"one", topic="a"))])
        appended = client.stats().append_offset
        pause = threading.Event()
        for _ in range(500):
            if client.stats().flushed_offset >= appended:
                break
            pause.wait(0.01)
        assert client.stats().flushed_offset >= appended


def test_kill_9_keeps_settles_and_forgets_only_leases() -> None:
    with engine_with_topic(queues=1) as engine, engine.client() as client:
        client.group_put(GroupConfig(group="g"))
        client.put([encode_record(message(b"%d" % i)) for i in range(10)])
        received = client.receive(receive_request())
        generation = received.head.lease_generation
        ref = LeaseRef(topic="t", queue_id=0, lease_generation=generation, queue_offsets=[0, 1, 5])
        assert client.settle(SettleRequest(group="g", acks=[ref])).acked_count == 3
        engine.kill()
        engine.start()
        again = client.receive(receive_request(count=4))
        assert [r.queue_offset for r in again.records] == [2, 3, 4, 6]
        late = LeaseRef(topic="t", queue_id=0, lease_generation=generation, queue_offsets=[2, 9])
        reply = client.settle(SettleRequest(group="g", acks=[late]))
        assert reply.acked_count == 1
        assert [failure.queue_offset for failure in reply.failures] == [2]


def test_the_asyncio_client_reconnects_on_its_own_and_tells_unsent_from_unknown() -> None:
    async def scenario(engine: Engine) -> None:
        client = AsyncStoreClient(engine.socket, client_name="test", config=RECONNECT)
        await client.wait_connected(10_000)
        os.kill(engine.pid, 19)  # SIGSTOP: the put is sent, the answer cannot come
        unknown = client.put([encode_record(message(b"a"))])
        await asyncio.sleep(0)
        engine.kill()
        with pytest.raises(OutcomeUnknown):
            await unknown
        while client.is_connected:
            await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await client.put([encode_record(message(b"b"))])
        engine.start()
        await client.wait_connected(10_000)
        (result,) = await client.put([encode_record(message(b"c"))])
        assert result.error is None
        await client.aclose()

    with engine_with_topic() as engine:
        asyncio.run(scenario(engine))


def test_the_asyncio_client_continues_at_once_when_the_greeting_is_cut_off(tmp_path: Path) -> None:
    """An engine that dies between accept and HELLO must not cost a whole request timeout."""

    patient = msgspec.structs.replace(RECONNECT, request_timeout_ms=3_600_000)

    async def scenario() -> int:
        accepted = 0
        enough = asyncio.Event()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal accepted
            accepted += 1
            writer.close()
            if accepted == 3:
                enough.set()

        path = str(tmp_path / "s")
        server = await asyncio.start_unix_server(accept, path)
        client = AsyncStoreClient(path, client_name="test", config=patient)
        client.start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), WAIT_S)
        await client.aclose()
        server.close()
        return accepted

    assert asyncio.run(scenario()) == 3


def test_a_request_that_was_never_sent_is_unavailable_not_unknown() -> None:
    with (
        Engine(MQ_ENGINE_CONNECTION_COUNT_MAX="1") as engine,
        engine.client() as holder,
        engine.client(1_000) as client,
    ):
        holder.ping()
        with pytest.raises(StoreUnavailable):
            client.put([encode_record(message(b"a"))])


def test_one_put_too_large_for_a_frame_harms_nobody_else() -> None:
    async def scenario(engine: Engine) -> None:
        client = AsyncStoreClient(
            engine.socket, client_name="test", config=ClientConfig(frame_bytes_max=65_536)
        )
        await client.wait_connected(10_000)
        await client.group_put(GroupConfig(group="g"))
        parked = asyncio.ensure_future(client.receive(receive_request(wait_ms=10_000)))
        await client.ping()
        with pytest.raises(StoreError) as caught:
            await client.put([encode_record(message(bytes(2_000)))] * 100)
        assert not isinstance(caught.value, OutcomeUnknown)
        await client.put([encode_record(message(b"a"))])
        assert [record.body for record in (await parked).records] == [b"a"]
        await client.aclose()

    with engine_with_topic(
        MQ_ENGINE_FRAME_BYTES_MAX="65536", MQ_ENGINE_BODY_BYTES_MAX="32768"
    ) as engine:
        asyncio.run(scenario(engine))


def test_a_cancelled_receive_gives_its_messages_back() -> None:
    async def scenario(engine: Engine) -> None:
        client = AsyncStoreClient(engine.socket, client_name="test")
        await client.wait_connected(10_000)
        await client.group_put(GroupConfig(group="g"))
        for index in range(50):
            parked = asyncio.ensure_future(client.receive(receive_request(wait_ms=10_000)))
            await client.ping()
            put = client.put([encode_record(message(b"%d" % index))])
            for _ in range(index % 5):
                await asyncio.sleep(0)  # the cancellation meets every stage of the answer
            if parked.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await parked
                parked = asyncio.ensure_future(client.receive(receive_request(wait_ms=10_000)))
            await put
            received = await parked  # of the first, where the answer was there before
            assert [record.body for record in received.records] == [b"%d" % index]
            ref = LeaseRef(
                topic="t", queue_id=0, lease_generation=received.head.lease_generation,
                queue_offsets=[index],
            )  # fmt: skip
            assert (await client.settle(SettleRequest(group="g", acks=[ref]))).acked_count == 1
        assert (await client.stats()).parked_count == 0
        await client.aclose()

    with engine_with_topic() as engine:
        asyncio.run(scenario(engine))
