"""Look-ups through both clients and a real engine, across a kill."""

from __future__ import annotations

import pytest

from storage_engine.client import (
    AsyncStoreClient,
    CursorInvalid,
    LookUpRequest,
    OffsetAtTimeRequest,
    PullRequest,
    PullStatus,
    QueueNotFound,
    StoreMessage,
    encode_record,
    new_message_id,
)
from tests.storage_engine.engines import engine_with_topic


def record(message_id: str, key: str, tag: str | None = None) -> bytes:
    return encode_record(
        StoreMessage(
            topic="t",
            queue_id=0,
            body=key.encode(),
            message_id=message_id,
            born_timestamp_ms=1,
            born_host=("10.0.0.1", 1),
            keys=[key],
            tag=tag,
        )
    )


def request(key: str, cursor: str = "") -> LookUpRequest:
    return LookUpRequest(topic="t", key=key, messages_max=2, bytes_max=1 << 20, cursor=cursor)


def test_messages_are_found_by_id_and_key_also_after_a_kill() -> None:
    ids = [new_message_id() for _ in range(5)]
    with engine_with_topic() as engine, engine.client() as client:
        results = client.put([record(message_id, "order-7") for message_id in ids])
        for _ in range(2):
            head, first = client.look_up(request("order-7"))
            head, second = client.look_up(request("order-7", head.cursor))
            head, third = client.look_up(request("order-7", head.cursor))
            assert [found.message_id for found in [*first, *second, *third]] == ids[::-1]
            assert (head.cursor, head.is_complete) == ("", True)
            assert client.look_up(request(ids[1]))[1][0].queue_offset == 1
            engine.kill()
            engine.start()

        at = OffsetAtTimeRequest(topic="t", queue_id=0, timestamp_ms=results[0].store_timestamp_ms)
        assert client.offset_at_time(at).queue_offset == 0
        with pytest.raises(CursorInvalid):
            client.look_up(request("order-7", "AAAA"))


async def test_async_client_finds_the_same() -> None:
    with engine_with_topic() as engine:
        client = AsyncStoreClient(engine.socket, client_name="test")
        await client.wait_connected(10_000)
        message_id = new_message_id()
        (result,) = await client.put([record(message_id, "k", "red")])

        head, records = await client.look_up(request("k"))
        assert [found.message_id for found in records] == [message_id]
        assert head.cursor == ""
        later = OffsetAtTimeRequest(
            topic="t", queue_id=0, timestamp_ms=result.store_timestamp_ms + 1
        )
        assert (await client.offset_at_time(later)).queue_offset == 1
        pull = PullRequest(
            topic="t", queue_id=0, queue_offset=0, messages_max=1, bytes_max=1, tags=["blue"]
        )
        assert (await client.pull(pull))[0].status is PullStatus.NO_MATCHED_MSG
        with pytest.raises(QueueNotFound):
            await client.offset_at_time(OffsetAtTimeRequest(topic="t", queue_id=9, timestamp_ms=0))
        await client.aclose()
