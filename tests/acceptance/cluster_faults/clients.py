"""Clients of a cluster on a host of their own; producers note how each request ended."""

from __future__ import annotations

import contextlib
import itertools
import time
from http.client import CREATED, NO_CONTENT, OK
from typing import NamedTuple

import httpx

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.asking import read_topic
from tests.acceptance.history.clients import Producer, RestConsumer
from tests.acceptance.history.events import History
from tests.acceptance.nemesis.run import PatientSocketConsumer
from tests.acceptance.partitions.clients import OnHost


class Answer(NamedTuple):
    """Of one request, at a monotonic time; counts of its messages."""

    at: float
    latency_s: float
    acknowledged: int
    rejected: int
    unknown: int


class NotingProducer(OnHost, Producer):
    """One request after the other, with a pause between, so that a service that stalls gets fewer
    requests and not all of them afterwards.
    """

    pause_s = 0.15
    batch_count = 5

    def __init__(self, name: str, facts: Quickstart, history: History, seed: int) -> None:
        super().__init__(name, facts, history, seed)
        self.answers: list[Answer] = []

    def answered(self, outcomes: list[bool | None], asked_at: float) -> None:
        now = time.monotonic()
        counts = (outcomes.count(outcome) for outcome in (True, False, None))
        self.answers.append(Answer(now, now - asked_at, *counts))


class DelayingProducer(OnHost, Producer):
    """Its messages come later, and not too early."""

    pause_s = 0.5
    batch_count = 2
    delay_s = 3


class HostedRestConsumer(OnHost, RestConsumer):
    pass


class HostedSocketConsumer(OnHost, PatientSocketConsumer):
    pass


class TopicChanger(OnHost):
    """Creates topics, each with a message, and deletes them again a little later. ``there`` and
    ``deleted``: as was confirmed; of others nobody knows.
    """

    pause_s = 0.2
    kept_count = 4

    def __init__(self, name: str, facts: Quickstart, history: History, seed: int) -> None:
        super().__init__(name, facts, history, seed)
        self.there: list[str] = []
        self.deleted: list[str] = []

    def work(self) -> None:
        with self.api() as api:
            for number in itertools.count():
                if self.is_stopping:
                    return
                with contextlib.suppress(httpx.TransportError):
                    self._create_topic(api, f"{self.name}-{number}")
                if len(self.there) > self.kept_count:
                    with contextlib.suppress(httpx.TransportError):
                        self._delete_topic(api, self.there.pop(0))
                self._is_stopping.wait(self.pause_s)

    def _create_topic(self, api: httpx.Client, topic: str) -> None:
        if self._put(api, topic):
            self.there.append(topic)
            self._send(api, topic)

    def _delete_topic(self, api: httpx.Client, topic: str) -> None:
        if api.delete(self.path(f"topics/{topic}")).status_code == NO_CONTENT:
            self.deleted.append(topic)

    def lost(self) -> list[tuple[str, str]]:
        """Confirmed changes that did not last: anomalies. Once nothing is at fault any more."""
        found: list[tuple[str, str]] = []
        with self.api() as api:
            for topic in self.there:
                if not self._send(api, topic):
                    found.append(("created-topic-lost", topic))
            for topic in self.deleted:
                self._put(api, topic)
                if api.get(self.path(f"topics/{topic}/messages")).json()["messages"]:
                    found.append(("deleted-topic-came-back", topic))
                api.delete(self.path(f"topics/{topic}"))
        return found

    def _put(self, api: httpx.Client, topic: str) -> bool:
        # Its message is confirmed by the disk, and does not take the topic along to the log.
        wanted = {"queues": 1, "durability": "sync"}
        return api.put(self.path(f"topics/{topic}"), json=wanted).status_code == CREATED

    def _send(self, api: httpx.Client, topic: str) -> bool:
        sent = api.post(self.path(f"topics/{topic}/messages"), json={"body": topic})
        return sent.status_code == CREATED


class Canceller(OnHost):
    """Schedules messages in a replicated topic of its own and cancels all but every tenth.
    ``cancelled``, ``kept``: bodies, as was confirmed; of others nobody knows.
    """

    pause_s = 0.1
    delay_s = 20  # longer than a takeover, so that what comes back is there before it is due
    kept_each = 10

    def __init__(self, name: str, facts: Quickstart, history: History, seed: int) -> None:
        super().__init__(name, facts, history, seed)
        self.cancelled: set[str] = set()
        self.kept: set[str] = set()

    def work(self) -> None:
        with self.api() as api:
            wanted = {"queues": 1, "durability": "replicated"}
            assert api.put(self.path(f"topics/{self.name}"), json=wanted).status_code == CREATED
            for number in itertools.count():
                if self.is_stopping:
                    return
                with contextlib.suppress(httpx.TransportError):
                    self._schedule(api, number)
                self._is_stopping.wait(self.pause_s)

    def _schedule(self, api: httpx.Client, number: int) -> None:
        body = f"{self.name}-{number}"
        offer = {"body": body, "delay_ms": self.delay_s * 1_000}
        sent = api.post(self.path(f"topics/{self.name}/messages"), json=offer)
        if sent.status_code != CREATED:
            return
        if number % self.kept_each == 0:
            self.kept.add(body)
            return
        handle = sent.json()["recall_handle"]
        if api.delete(self.path(f"scheduled/{handle}")).status_code == OK:
            self.cancelled.add(body)

    def wrong(self) -> list[tuple[str, str]]:
        """What came although it was cancelled, and what did not come: anomalies. Once all is due
        and nothing is at fault any more.
        """
        there = set(read_topic(self.facts, self.name).values())
        return [
            *(("cancelled-message-came", body) for body in sorted(self.cancelled & there)),
            *(("scheduled-message-lost", body) for body in sorted(self.kept - there)),
        ]
