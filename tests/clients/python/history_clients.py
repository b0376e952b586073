"""Producers and consumers made of the Python client, for the load whose history is judged."""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from typing import Any, Literal

import pytest
from mqservice_client import (
    AsyncClient,
    AsyncMessage,
    Batch,
    Message,
    OutcomeUnknown,
    Pending,
    SettleFailed,
    Subscription,
)
from mqservice_client import Client as SyncClient
from mqservice_client.messages import BaseMessage, Feed

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.clients import Client
from tests.acceptance.history.events import (
    Accepted,
    AckBegun,
    Acked,
    Delivered,
    GivenBack,
    History,
    Offered,
)

LEASE_MS = 5_000
BATCH = 10
PAUSE_S = 0.2
NACK_SHARE = 0.05
PATIENCE = "2m"
NO_MATTER = ("LEASE_EXPIRED", "SUBSCRIPTION_CLOSED")
OPTIONS: dict[str, Any] = {  # Any: of different types
    "lease": f"{LEASE_MS}ms",
    "auto_extend": None,
    "prefetch": 50,
}


class Arrivals:
    """When messages came to the client: one that waits there for a thread, or while another's ack
    is being confirmed, was delivered then, and not when the program gets it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._at: weakref.WeakKeyDictionary[BaseMessage, float] = weakref.WeakKeyDictionary()
        deliver = Feed.deliver

        def note(feed: Feed, messages: list[BaseMessage]) -> None:
            now = time.monotonic()
            for message in messages:
                self._at[message] = now
            deliver(feed, messages)

        monkeypatch.setattr(Feed, "deliver", note)

    def of(self, message: BaseMessage) -> float:
        return self._at[message]


class BatchProducer(Client):
    """Sends batches with a key for each message, which are repeated until they are accepted."""

    def work(self) -> None:
        sequence = itertools.count()
        with SyncClient(self.facts.base_url, self.facts.api_key, timeout=PATIENCE) as mq:
            while not self.is_stopping:
                with mq.batch(self.facts.topic, idempotent=True) as batch:
                    sent = [self._send(batch, next(sequence)) for _ in range(BATCH)]
                for body, pending in sent:
                    stored = pending.result()
                    assert stored.offset is not None
                    self.history.add(Accepted(body, stored.queue, stored.offset))
                self._is_stopping.wait(PAUSE_S)

    def _send(self, batch: Batch, sequence: int) -> tuple[str, Pending]:
        body = f"{self.name}|{sequence}|{self.random.getrandbits(64):016x}"
        self.history.add(Offered(body, self.name, sequence))
        return body, batch.send(body)


class MessageConsumer(Client):
    """What all consumers do with a message: ack most, give some back."""

    numbers = itertools.count(1)

    def __init__(
        self, name: str, facts: Quickstart, history: History, seed: int, arrivals: Arrivals
    ) -> None:
        super().__init__(name, facts, history, seed)
        self._arrivals = arrivals

    def settle(self, message: BaseMessage) -> bool:
        """Whether it is being acked."""
        body = message.text
        place = message.queue, message.offset, message.attempt
        came = Delivered(
            body, self.name, next(self.numbers), *place, LEASE_MS, at=self._arrivals.of(message)
        )
        self.history.add(came)
        if self.random.random() < NACK_SHARE:
            self.history.add(GivenBack(body, self.name))
            message.nack(delay="0ms")
            return False
        self.history.add(AckBegun(body, self.name))
        message.ack()
        return True

    def confirm(self, message: Message) -> None:
        try:
            message.confirmed(PATIENCE)
        except OutcomeUnknown:
            return
        except SettleFailed as exc:
            if exc.code not in NO_MATTER:
                raise
        else:
            self.history.add(Acked(message.text, self.name))


class IteratingConsumer(MessageConsumer):
    """A loop over a subscription of the synchronous client."""

    transport: Literal["auto", "rest"] = "auto"

    def work(self) -> None:
        facts = self.facts
        with (
            SyncClient(facts.base_url, facts.api_key, transport=self.transport) as mq,
            mq.subscribe(facts.topic, facts.group, **OPTIONS) as subscription,
        ):
            while not self.is_stopping:
                self._settle_some(subscription)

    def _settle_some(self, subscription: Subscription) -> None:
        acked: list[Message] = []
        while len(acked) < BATCH and (message := subscription.get("100ms")) is not None:
            if self.settle(message):
                acked.append(message)
        for message in acked:
            self.confirm(message)


class RestConsumer(IteratingConsumer):
    """The same over REST."""

    transport = "rest"


class HandlerConsumer(MessageConsumer):
    """A function that ``run`` calls on threads."""

    def stop(self) -> None:
        super().stop()
        self._mq.stop()

    def work(self) -> None:
        facts = self.facts
        with SyncClient(facts.base_url, facts.api_key) as self._mq:

            @self._mq.consumer(facts.topic, facts.group, concurrency=4, **OPTIONS)
            def handle(message: Message) -> None:
                if self.settle(message):
                    self.confirm(message)

            self._mq.run()


class AsyncConsumer(MessageConsumer):
    """A coroutine function that ``run`` of the asynchronous client calls."""

    def work(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        facts = self.facts
        async with AsyncClient(facts.base_url, facts.api_key) as mq:

            @mq.consumer(facts.topic, facts.group, concurrency=20, **OPTIONS)
            async def handle(message: AsyncMessage) -> None:
                if self.settle(message):
                    await self._confirm(message)

            running = asyncio.create_task(mq.run())
            await asyncio.to_thread(self._is_stopping.wait)
            mq.stop()
            await running

    async def _confirm(self, message: AsyncMessage) -> None:
        try:
            await message.confirmed(PATIENCE)
        except OutcomeUnknown:
            return
        except SettleFailed as exc:
            if exc.code not in NO_MATTER:
                raise
        else:
            self.history.add(Acked(message.text, self.name))
