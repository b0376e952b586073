"""Clients of a cluster on a host of their own; producers note what each request came to."""

from __future__ import annotations

import time
from typing import NamedTuple

from mqservice.supervisor.quickstart import Quickstart
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
