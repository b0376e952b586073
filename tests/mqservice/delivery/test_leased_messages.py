"""What a subscription's client holds, kept by batches, against a dict that keeps each message."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mqservice.delivery.socket.leased_batch import Delivery
from mqservice.delivery.socket.leased_messages import LeasedMessages
from mqservice.protocol.frames import TagFailure
from mqservice.store import Received, ReceiveHead, Record

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "ack_frame", "ack_some", "ack_upto", "ended", "extend", "count"]),
        st.integers(0, 40),
    ),
    max_size=40,
)


def received(first_offset: int, count: int, until_ms: int) -> Received:
    """Of two queues, sizes all different; the lease ends at ``until_ms``."""
    records = [
        Record(
            topic="a%t" if offset % 7 else "a%RETRY",
            queue_id=offset % 2 if count % 2 else 0,
            queue_offset=offset,
            physical_offset=0,
            born_timestamp_ms=0,
            store_timestamp_ms=0,
            reconsume_times=0,
            body=bytes(offset % 50),
            tag=None,
            keys=[],
            message_group=None,
            message_id=str(offset),
            properties={},
        )
        for offset in range(first_offset, first_offset + count)
    ]
    head = ReceiveHead(lease_generation=count, lease_until_ms=until_ms, attempts=[1] * count)
    return Received(head, records)


class Model:
    """Each message by itself, and which were pushed together."""

    def __init__(self) -> None:
        self.held: dict[int, Delivery] = {}
        self.frames: list[list[int]] = []
        self.next_tag = 1

    def add(self, what: Received, extend_until_ms: int) -> None:
        head, records = what.head, what.records
        for record in records:
            self.held[self.next_tag] = Delivery(
                record.topic, record.queue_id, head.lease_generation, record.queue_offset,
                len(record.body), head.lease_until_ms, extend_until_ms, 1,
            )  # fmt: skip
            self.next_tag += 1
        self.frames.append(list(range(self.next_tag - len(records), self.next_tag)))


def acked(
    held: LeasedMessages, tags: list[int]
) -> tuple[list[tuple[int, Delivery]], int, list[TagFailure]]:
    """As ``Subscription.ack`` does it: what was taken out, its bytes, failures."""
    batch = held.pop_batch(tags)
    if batch is None:
        failures: list[TagFailure] = []
        taken = held.pop(tags, failures)
        assert taken.msgs == len(taken.deliveries)
        return taken.deliveries, taken.body_bytes, failures
    deliveries = list(batch.deliveries())
    places = [
        (topic, queue_id, offset)
        for topic, queue_id, offsets in batch.places()
        for offset in offsets
    ]
    assert sorted(places) == sorted((each[0], each[1], each[3]) for _, each in deliveries)
    return deliveries, batch.body_bytes, []


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_batches_change_nothing_that_can_be_seen(steps: list[Step]) -> None:
    held, model = LeasedMessages(), Model()
    for now_ms, (name, number) in enumerate(steps):
        if name == "add":
            what = received(model.next_tag, number % 9, now_ms + number)
            assert held.add(what, now_ms + 20).first_tag == model.next_tag
            model.add(what, now_ms + 20)
        elif name in ("ack_frame", "ack_some", "ack_upto"):
            if name == "ack_frame":
                tags = model.frames[number % len(model.frames)] if model.frames else []
            elif name == "ack_some":
                tags = list(range(number, number + 3))  # 0 and tags to come were never given
            else:
                tags = sorted([tag for tag in held.outstanding if tag <= number])
                assert tags == [tag for tag in sorted(model.held) if tag <= number]
            deliveries, body_bytes, failures = acked(held, tags)
            known = {tag: model.held.pop(tag) for tag in tags if tag in model.held}
            assert dict(deliveries) == known
            assert body_bytes == sum(each.body_bytes for each in known.values())
            wrong = [tag for tag in tags if not 0 < tag < model.next_tag]
            assert failures == [TagFailure(tag, "UNKNOWN_TAG") for tag in wrong]
        elif name == "ended":
            over = [tag for tag, each in model.held.items() if each.lease_until_ms <= now_ms]
            assert sorted(held.expired(now_ms)) == over
        elif name == "extend":
            due = [
                tag
                for tag, each in model.held.items()
                if each.lease_until_ms - now_ms <= 5 < each.extend_until_ms - now_ms
            ]
            assert sorted(held.due_for_extension(now_ms, 5)) == due
            for tag in due:
                held.extended(tag, now_ms + number)
                model.held[tag] = model.held[tag]._replace(lease_until_ms=now_ms + number)
        assert len(held) == len(model.held)
        assert held.body_bytes == sum(each.body_bytes for each in model.held.values())
        assert held.next_tag == model.next_tag
    assert dict(sorted(held.outstanding.items())) == model.held


def test_a_frame_is_taken_as_it_was_pushed_or_message_by_message() -> None:
    held = LeasedMessages()
    held.add(received(1, 4, 9), 0)
    assert held.pop_batch([]) is None
    assert held.pop_batch([1, 2, 3]) is None
    assert held.pop_batch([1, 2, 4, 3]) is None
    assert held.pop_batch([1, 2, 3, 4]) is not None
    assert held.pop_batch([1, 2, 3, 4]) is None
    assert not held
    held.add(received(5, 4, 9), 0)
    assert held.expired(9) == [5, 6, 7, 8]  # looked at one by one from here on
    assert held.pop_batch([5, 6, 7, 8]) is None
    assert [tag for tag, _ in held.pop([5, 6, 7, 8], []).deliveries] == [5, 6, 7, 8]
