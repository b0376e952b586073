"""Acks of everything that a receive gave out up to one of its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.delivery import settle
from storage_engine.errors import BatchUnknown, LeaseExpired
from storage_engine.wire.deliveries import AckUpTo, Extend, SettleRequest
from storage_engine.wire.offsets import OffsetResetRequest, ResetTo
from tests.storage_engine.delivery.requests import Asked, filled, unsettled
from tests.storage_engine.doubles import OpenStore


async def test_everything_before_it_in_the_answer_is_settled_and_nothing_behind_it(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 12, queues=3) as store:
        asked = Asked(store)
        order = asked.bodies
        reply = asked.settle(up_to=order[6])
        assert (reply.acked_count, reply.failures) == (7, [])
        await store.pass_time(1_000)
        assert sorted(Asked(store).bodies) == sorted(order[7:])


async def test_it_covers_no_message_of_another_answer(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 6) as store:
        first, second = Asked(store, 3), Asked(store, 3, lease_ms=5_000)
        assert second.settle(up_to=b"5").acked_count == 3
        await store.pass_time(1_000)
        assert Asked(store).bodies == first.bodies


async def test_what_is_named_otherwise_or_was_released_is_left_out(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 6) as store:
        asked = Asked(store)
        assert asked.settle(nacks=(b"1",), delay_ms=500).nacked_count == 1
        reply = asked.settle(up_to=b"4", acks=(b"0",), nacks=(b"3",), delay_ms=500)
        assert (reply.acked_count, reply.nacked_count, reply.failures) == (3, 1, [])
        await store.pass_time(500)
        assert sorted(Asked(store).bodies) == [b"1", b"3"]


async def test_a_repeated_call_is_answered_as_the_first(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 4, queues=2) as store:
        asked = Asked(store)
        last = asked.bodies[-1]
        for _ in range(2):
            reply = asked.settle(up_to=last)
            assert (reply.acked_count, reply.failures) == (4, [])
        assert unsettled(store) == 0


async def test_the_batch_is_known_by_any_message_that_is_still_leased(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 4, queues=2) as store:
        asked = Asked(store)
        last = asked.bodies[-1]
        asked.settle(acks=(last,))
        reply = asked.settle(up_to=last)
        assert (reply.acked_count, reply.failures) == (4, [])
        assert unsettled(store) == 0


async def test_a_look_for_the_batch_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "_LOOK_MAX", 2)
    async with filled(OpenStore(tmp_path), 6) as store:
        others = Asked(store, 2, member_id="other")
        asked = Asked(store, 2)
        asked.settle(acks=(b"3",))
        assert [each.code for each in asked.settle(up_to=b"3").failures] == [BatchUnknown.code]
        assert others.settle(up_to=b"1").acked_count == 2
        assert asked.settle(up_to=b"3").acked_count == 2


async def test_a_message_that_someone_else_has_by_now_is_a_failure_of_its_own(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 3) as store:
        asked = Asked(store)
        extend = asked.records[2]
        store.store.consumption.settle(_extend(asked, extend.queue_offset))
        await store.pass_time(1_000)
        other = Asked(store, member_id="other")
        assert other.bodies == [b"0", b"1"]
        reply = asked.settle(up_to=b"2")
        assert reply.acked_count == 1
        failed = [(each.queue_offset, each.code) for each in reply.failures]
        assert failed == [(0, LeaseExpired.code), (1, LeaseExpired.code)]
        assert other.settle(up_to=b"1").acked_count == 2


async def test_nobody_knows_the_batch_after_a_restart_and_each_message_can_be_acked(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 3) as store:
        asked = Asked(store)
        bodies = asked.bodies
    async with OpenStore(tmp_path, clock=store.clock) as store:
        asked._store = store.store
        reply = asked.settle(up_to=b"2")
        assert (reply.acked_count, [each.code for each in reply.failures]) == (
            0,
            [BatchUnknown.code],
        )
        assert unsettled(store) == 3
        assert asked.settle(acks=tuple(bodies)).acked_count == 3
        assert unsettled(store) == 0


async def test_a_generation_that_never_gave_out_the_message_acks_nothing(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 4) as store:
        first, second = Asked(store, 2), Asked(store, 2)
        # The place of one answer with the lease of another, as no receipt that was made says.
        mixed = AckUpTo(
            topic="t", queue_id=0, lease_generation=first.answer.lease_generation, queue_offset=3
        )
        absent = AckUpTo(topic="t", queue_id=9, lease_generation=1, queue_offset=0)
        reply = store.store.consumption.settle(SettleRequest(group="g", ack_up_tos=[mixed, absent]))
        assert [each.code for each in reply.failures] == [BatchUnknown.code, LeaseExpired.code]
        assert unsettled(store) == 4
        assert second.settle(up_to=b"3").acked_count == 2


async def test_after_a_reset_it_settles_nothing(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 3) as store:
        asked = Asked(store)
        asked.settle(up_to=b"1")
        _reset(store)
        reply = asked.settle(up_to=b"2")
        assert reply.acked_count == 0
        assert {each.code for each in reply.failures} == {LeaseExpired.code}
        assert unsettled(store) == 3


def _extend(asked: Asked, queue_offset: int) -> SettleRequest:
    return SettleRequest(
        group="g",
        extends=[
            Extend(
                topic="t", queue_id=0, lease_generation=asked.answer.lease_generation,
                queue_offset=queue_offset, lease_ms=60_000,
            )
        ],
    )  # fmt: skip


def _reset(store: OpenStore) -> None:

    store.store.consumption.offset_reset(
        OffsetResetRequest(group="g", topic="t", to=ResetTo.EARLIEST)
    )
