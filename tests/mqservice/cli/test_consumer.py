"""Consuming over a real WebSocket: credit, confirmed acks, and coming back after a close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mqservice_client.protocol.frames import Subprotocol

from mqservice.cli.consumer import ConsumeLimits, Consumer
from mqservice.cli.errors import ClientError, RequestRejected, Unreachable
from mqservice.cli.messages import Delivered
from mqservice.cli.messaging import PATIENCE, connected
from mqservice.cli.target import Target
from tests.mqservice.cli.service_double import Pushed, ServiceDouble, service_double

WAIT_S = 60
BOTH = pytest.mark.parametrize("subprotocol", list(Subprotocol))
MSGPACK = Subprotocol.MSGPACK


class Consuming:
    """One run of a ``Consumer`` and what came out of it."""

    def __init__(
        self,
        target: Target,
        limits: ConsumeLimits,
        subprotocol: Subprotocol = MSGPACK,
    ) -> None:
        self.messages: list[Delivered] = []
        self.notices: list[str] = []
        self._client = connected(target, timeout=PATIENCE, subprotocol=subprotocol)
        self.consumer = Consumer(
            self._client,
            "orders",
            "billing",
            limits=limits,
            on_messages=self.messages.extend,
            on_notice=self.notices.append,
        )

    async def run(self) -> Consuming:
        async with self._client:
            await self.consumer.run()
        return self

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


def fill(double: ServiceDouble, count: int) -> list[bytes]:
    """A backlog of ``count`` messages; every third is no text."""
    bodies = [
        b"\xff\x00%d" % number if number % 3 == 0 else b"m\xc3\xa9 \n%d" % number
        for number in range(count)
    ]
    double.backlog = [Pushed(f"{number:034X}", body) for number, body in enumerate(bodies)]
    return bodies


def commands_named(double: ServiceDouble, op: int) -> list[Any]:  # reason: frames as arrays
    return [
        command for command in double.commands if isinstance(command, list) and command[0] == op
    ]


@BOTH
async def test_messages_arrive_byte_for_byte_and_are_acked(subprotocol: Subprotocol) -> None:
    async with service_double() as double:
        bodies = fill(double, 20)
        limits = ConsumeLimits(window_messages=8, messages_max=20, does_ack=True)
        consuming = await Consuming(double.target, limits, subprotocol).run()
        assert consuming.bodies == bodies
        assert double.acked == [message.id for message in double.backlog]
        assert consuming.consumer.totals.acked == 20
        assert consuming.consumer.totals.unconfirmed == 0


async def test_no_more_is_asked_for_than_is_wanted() -> None:
    async with service_double() as double:
        fill(double, 50)
        limits = ConsumeLimits(window_messages=8, messages_max=20, does_ack=True)
        consuming = await Consuming(double.target, limits).run()
        assert len(consuming.messages) == 20
        assert len(double.acked) == 20
        assert double.pushed_count == 20


async def test_count_smaller_than_the_window_limits_the_credit() -> None:
    async with service_double() as double:
        fill(double, 50)
        limits = ConsumeLimits(window_messages=64, messages_max=3, does_ack=True)
        await Consuming(double.target, limits).run()
        assert double.pushed_count == 3


async def test_without_ack_credit_is_given_again_and_nothing_settled() -> None:
    async with service_double() as double:
        bodies = fill(double, 20)
        limits = ConsumeLimits(window_messages=4, messages_max=20)
        consuming = await Consuming(double.target, limits).run()
        assert consuming.bodies == bodies
        assert double.acked == []
        assert commands_named(double, 7) == []
        assert commands_named(double, 5)


async def test_idle_exit_ends_a_quiet_subscription() -> None:
    async with service_double() as double:
        fill(double, 2)
        limits = ConsumeLimits(idle_exit_ms=1_000, does_ack=True)
        consuming = await Consuming(double.target, limits).run()
        assert len(consuming.messages) == 2
        assert consuming.consumer.totals.acked == 2


async def test_time_to_connect_is_not_idle_time() -> None:
    async with service_double() as double:
        await Consuming(double.target, ConsumeLimits(idle_exit_ms=1)).run()
        assert len(commands_named(double, 4)) == 1, "it ended before it had subscribed"


async def test_stop_confirms_what_was_acked_and_leaves() -> None:
    async with service_double() as double:
        fill(double, 2)
        consuming = Consuming(double.target, ConsumeLimits(does_ack=True))
        running = asyncio.create_task(consuming.run())
        async with asyncio.timeout(WAIT_S):
            await double.has_acked.wait()
            consuming.consumer.stop()
            await running
        assert consuming.consumer.totals.acked == 2


@BOTH
async def test_ping_is_answered(subprotocol: Subprotocol) -> None:
    async with service_double() as double:
        fill(double, 1)
        double.pings_first = True
        limits = ConsumeLimits(messages_max=1, does_ack=True)
        await Consuming(double.target, limits, subprotocol).run()
        assert ({} if subprotocol is Subprotocol.JSON else [17]) in double.commands


@pytest.mark.parametrize("code", [1012, 1013, 4408, 4429])
async def test_restartable_close_is_followed_by_a_new_connection(code: int) -> None:
    async with service_double() as double:
        bodies = fill(double, 10)
        double.closes.append((4, code))
        limits = ConsumeLimits(window_messages=2, messages_max=10, does_ack=True)
        consuming = await Consuming(double.target, limits).run()
        assert consuming.bodies == bodies
        assert sorted(double.acked) == sorted(message.id for message in double.backlog)
        assert double.handshakes == 2
        assert any(str(code) in notice for notice in consuming.notices)


async def test_message_whose_ack_was_lost_is_acked_again_and_not_shown_twice() -> None:
    async with service_double() as double:
        bodies = fill(double, 6)
        # The first connection ends with four messages delivered and none of their acks answered.
        double.closes.append((4, 1012))
        double.ignores_acks = 1
        limits = ConsumeLimits(window_messages=4, messages_max=6, does_ack=True)
        consuming = await Consuming(double.target, limits).run()
        assert consuming.bodies == bodies
        assert consuming.consumer.totals.repeated == 4
        assert consuming.consumer.totals.unconfirmed == 0


@pytest.mark.parametrize("code", [4400, 4401, 4403, 4404, 4413])
async def test_final_close_ends_the_command(code: int) -> None:
    async with service_double() as double:
        fill(double, 10)
        double.closes.append((0, code))
        with pytest.raises(ClientError, match=f"with {code}"):
            await Consuming(double.target, ConsumeLimits(does_ack=True)).run()
        assert double.handshakes == 1


async def test_ack_that_came_too_late_is_counted() -> None:
    async with service_double() as double:
        fill(double, 3)
        double.refused_tags = {2}
        limits = ConsumeLimits(messages_max=3, does_ack=True)
        consuming = await Consuming(double.target, limits).run()
        assert (consuming.consumer.totals.acked, consuming.consumer.totals.ack_failed) == (2, 1)


async def test_wrong_key_is_refused_before_the_upgrade() -> None:
    async with service_double() as double:
        target = Target(base_url=double.target.base_url, key="mqk_other")
        with pytest.raises(RequestRejected, match=r"UNAUTHENTICATED \(HTTP 401\)"):
            await Consuming(target, ConsumeLimits()).run()


async def test_refused_subscription_ends_the_command() -> None:
    async with service_double() as double:
        double.subscribe_error = ("TOPIC_NOT_FOUND", False)
        with pytest.raises(RequestRejected, match="TOPIC_NOT_FOUND"):
            await Consuming(double.target, ConsumeLimits()).run()


async def test_subscription_refused_for_now_is_tried_again() -> None:
    async with service_double() as double:
        fill(double, 1)
        double.subscribe_error = ("ENGINE_UNAVAILABLE", True)
        limits = ConsumeLimits(messages_max=1, does_ack=True)
        consuming = await Consuming(double.target, limits).run()
        assert len(consuming.messages) == 1
        assert double.handshakes == 1


async def test_nobody_listening_at_the_first_try_is_final() -> None:
    async with service_double() as double:
        target = double.target
    with pytest.raises(Unreachable, match="connection refused"):
        await Consuming(target, ConsumeLimits()).run()
