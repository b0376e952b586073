"""A session of the socket protocol without a socket: what becomes of results when one is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from mqservice_client import OutcomeUnknown, SettleFailed
from mqservice_client.aio.message import AsyncMessage
from mqservice_client.messages import BaseMessage, Feed
from mqservice_client.protocol import frames
from mqservice_client.session import SocketSession, SocketSubscription, SubscribeOptions
from mqservice_client.sides import AsyncSide


class Peer:
    """The other end of a session, which says only what the test lets it say."""

    is_flush_due = False

    def __init__(self) -> None:
        self.session = SocketSession("test", self)
        self.feed = Feed(AsyncMessage, AsyncSide())
        self.subscription: SocketSubscription = self.session.subscribe(
            "t", "g", SubscribeOptions(), self.feed
        )
        self.connect(is_resumed=False)

    def flush_soon(self) -> None: ...

    def connect(self, *, is_resumed: bool) -> None:
        self.session.hello()
        self.say(frames.PackWelcome(id=1, session="s", resume_token="r", resumed=is_resumed))

    def lose_connection(self) -> None:
        self.session.disconnected()

    def deliver(self, *ids: str, first_tag: int) -> None:
        wires = [
            frames.PackDelivered(
                t=tag, id=each, q=0, o=0, s=0, a=1, tag=None, keys=[], g=None, p={}, b=b"x"
            )
            for tag, each in enumerate(ids, first_tag)
        ]
        self.say(frames.PackMessages(sid=1, m=wires))

    def say(self, push: msgspec.Struct) -> None:
        self.session.take(msgspec.msgpack.encode(push))

    def confirm_all(self) -> None:
        for number, *_ in self.commands:
            self.say(_pushed("ok", id=number, r={"failed": []}))

    def heard(self) -> list[list[Any]]:
        """What the session sends: [number of the frame, id of the command, …]."""
        self.commands = [
            (each[1], each) for each in map(msgspec.msgpack.decode, self.session.flush())
        ]
        return [each for _, each in self.commands]

    def heard_acks(self) -> list[list[int]]:
        number = next(frame.number for frame in frames.COMMANDS if frame.op == "ack")
        return [each[3] for each in self.heard() if each[0] == number]

    def take(self) -> BaseMessage:
        message = self.feed.take()
        assert message is not None
        return message


def _pushed(op: str, **fields: Any) -> msgspec.Struct:
    form = next(frame.pack for frame in frames.PUSHES if frame.op == op)
    return form(**fields)


@pytest.fixture
def peer() -> Peer:
    made = Peer()
    made.heard()
    made.confirm_all()
    return made


def confirmed(message: BaseMessage) -> None:
    assert isinstance(message, AsyncMessage)
    asyncio.run(message.confirmed("1ms"))


def test_a_resumed_session_repeats_what_was_not_confirmed(peer: Peer) -> None:
    peer.deliver("a", first_tag=1)
    message = peer.take()
    message.ack()
    assert peer.heard_acks() == [[1]]
    peer.lose_connection()
    peer.connect(is_resumed=True)

    assert peer.heard_acks() == [[1]]
    peer.confirm_all()
    confirmed(message)


def test_an_ack_of_a_lost_session_is_unknown_and_repeated_if_its_message_comes_again(
    peer: Peer,
) -> None:
    peer.deliver("a", first_tag=1)
    message = peer.take()
    message.ack()
    peer.heard()
    peer.lose_connection()
    peer.connect(is_resumed=False)
    peer.heard()
    peer.confirm_all()
    with pytest.raises(OutcomeUnknown, match=message.id):
        confirmed(message)
    peer.deliver("a", first_tag=7)

    assert peer.feed.take() is None
    assert peer.heard_acks() == [[7]]
    peer.confirm_all()
    confirmed(message)
    assert (peer.feed.stats.repeated, peer.feed.stats.acked) == (1, 1)


def test_a_message_in_hand_is_not_handed_over_a_second_time(peer: Peer) -> None:
    peer.deliver("a", "b", first_tag=1)
    message = peer.take()
    peer.lose_connection()
    peer.connect(is_resumed=False)
    were_lost = [message.is_lost]
    peer.deliver("a", "b", first_tag=1)

    assert peer.take().id == "b"
    assert peer.feed.take() is None
    assert [*were_lost, message.is_lost] == [True, False]
    message.ack()
    assert peer.heard_acks() == [[1]]


def test_an_ack_given_after_its_session_was_lost_waits_for_its_message(peer: Peer) -> None:
    peer.deliver("a", first_tag=1)
    message = peer.take()
    peer.lose_connection()
    peer.connect(is_resumed=False)
    message.ack()
    assert peer.heard_acks() == []
    with pytest.raises(OutcomeUnknown):
        confirmed(message)
    peer.deliver("a", first_tag=5)

    assert peer.heard_acks() == [[5]]
    assert peer.feed.take() is None


def test_a_nack_of_a_lost_session_has_failed(peer: Peer) -> None:
    peer.deliver("a", first_tag=1)
    message = peer.take()
    message.nack()
    peer.heard()
    peer.lose_connection()
    peer.connect(is_resumed=False)

    with pytest.raises(SettleFailed, match="SESSION_LOST"):
        confirmed(message)
    peer.deliver("a", first_tag=3)
    assert peer.take().id == "a"


def test_a_lost_message_that_nobody_has_taken_is_not_handed_out(peer: Peer) -> None:
    peer.deliver("a", "b", first_tag=1)
    peer.say(_pushed("lost", sid=1, t=[1], why="expired"))

    assert peer.take().id == "b"
    assert peer.feed.stats.lost == 1
