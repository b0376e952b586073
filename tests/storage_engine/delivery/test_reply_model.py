"""What belongs to one answer, against the model: repeated receives, acks up to a message."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from storage_engine.delivery.receive import RETAINED_MS
from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import BatchUnknown, LeaseExpired
from storage_engine.records.record_run import decode_records
from storage_engine.wire.deliveries import AckUpTo, ReceiveRequest, SettleRequest
from tests.sizes import sized
from tests.storage_engine.delivery.test_delivery_model import (
    INFLIGHT_MAX,
    LEASE_MS,
    QUEUES,
    DeliveryMachine,
)
from tests.storage_engine.model.message_model import Answer, Place, Receipt


class AnswerMachine(DeliveryMachine):
    """An answer is the receipts of one generation, in the order in which they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: dict[str, tuple[int, int, int]] = {}  # generation, run, when it was given
        self.acked_up_to: set[int] = set()

    def _answer(self, generation: int) -> list[Receipt]:
        return [one for one in self.model.receipts if one.generation == generation]

    @rule(count=st.integers(1, 8), attempt_id=st.sampled_from("abc"))
    def receive_again(self, count: int, attempt_id: str) -> None:
        now_ms = self.clock.monotonic_ms()
        generation, run, began_ms = self.attempts.get(attempt_id, (0, -1, 0))
        is_kept = run == self.model.run and now_ms < began_ms + RETAINED_MS
        held = [one for one in self._answer(generation) if is_kept and self.model.holds(one)]
        ready = {queue: self.model.ready(*queue) for queue in QUEUES}
        room = {queue: INFLIGHT_MAX - self.model.inflight_count(*queue) for queue in QUEUES}
        answers: list[Delivered] = []
        request = ReceiveRequest(
            group="g", topic="t", member_id="m", messages_max=count, bytes_max=1 << 20, wait_ms=0,
            lease_ms=LEASE_MS, attempt_id=attempt_id,
        )  # fmt: skip
        self.store.store.consumption.receive(request, answers.append)
        [delivered] = answers
        records = decode_records(self.store.store.read_records(delivered.records))
        places = [Place(each.topic, each.queue_id, each.queue_offset) for each in records]
        until_ms = now_ms + LEASE_MS
        for place, attempt in zip(places, delivered.attempts, strict=True):
            assert attempt == self.model.at[place].failures + 1
        if held:
            assert places == [one.place for one in held]
            assert delivered.lease_generation == generation
            assert all(self.model.extend(one, until_ms) for one in held)
            return
        assert len(places) == min(count, sum(min(len(ready[q]), room[q]) for q in QUEUES))
        for place in places:
            leased = self.model.at[place]
            self.model.leased(leased, delivered.lease_generation, until_ms, self.clock.now_ms())
        if places:
            self.attempts[attempt_id] = delivered.lease_generation, self.model.run, now_ms

    @precondition(lambda self: self.model.receipts)
    @rule(data=st.data())
    def ack_up_to(self, data: st.DataObject) -> None:
        last = self._drawn(data)
        answer = self._answer(last.generation)
        is_known = last.run == self.model.run and (
            last.generation in self.acked_up_to or any(self.model.holds(one) for one in answer)
        )
        place = last.place
        up_to = AckUpTo(
            topic=place.topic, queue_id=place.queue_id, lease_generation=last.generation,
            queue_offset=place.offset,
        )  # fmt: skip
        reply = self.store.store.consumption.settle(SettleRequest(group="g", ack_up_tos=[up_to]))
        failed = [(each.code, each.queue_id, each.queue_offset) for each in reply.failures]
        if not is_known:
            assert (reply.acked_count, failed) == (
                0, [(BatchUnknown.code, place.queue_id, place.offset)],
            )  # fmt: skip
            return
        self.acked_up_to.add(last.generation)
        meant = [one for one in answer[: answer.index(last) + 1] if one not in self.model.refused]
        done = {one: self.model.ack(one) for one in meant}
        expired = [one.place for one, how in done.items() if how is Answer.EXPIRED]
        assert reply.acked_count == len(meant) - len(expired)
        assert sorted(failed) == sorted(
            (LeaseExpired.code, at.queue_id, at.offset) for at in expired
        )


pytestmark = [pytest.mark.sized, pytest.mark.timeout(600)]
TestAnswers = AnswerMachine.TestCase
TestAnswers.settings = settings(
    max_examples=sized(25, torture=300), stateful_step_count=50, deadline=None
)
