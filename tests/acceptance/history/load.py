"""Producers and consumers under way together, and what of theirs does not happen in time.

    clients ──▶ [Load] ── somebody fires faults ──▶ drained ──▶ judge ──▶ LoadRun

A fault must neither stop for good what it does not touch, nor anything once it is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.acceptance.history.clients import Client
from tests.acceptance.history.events import Accepted, Delivered, Event, History
from tests.acceptance.history.judge import Verdict, judge
from tests.services import wait_until

CONDITION_S_MAX: Final = 60
DRAIN_S_MAX: Final = 120
RECENT_EVENTS_MAX: Final = 2_000


@dataclass(slots=True)
class LoadRun:
    """``fired``: faults that really happened, by name; ``anomalies``: (name, text)."""

    history: History
    verdict: Verdict = field(default_factory=Verdict)
    fired: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    anomalies: list[tuple[str, str]] = field(default_factory=list)


class Load:
    """``others`` are clients that neither produce nor consume; all share ``run.history``."""

    def __init__(
        self,
        run: LoadRun,
        *,
        producers: Sequence[Client],
        consumers: Sequence[Client],
        others: Sequence[Client] = (),
    ) -> None:
        self.run = run
        self._producers = producers
        self._consumers = consumers
        self._others = others

    def start(self) -> None:
        """Returns once messages flow to every consumer."""
        for client in self._clients:
            client.start()
        self.must("the load begins", "not-started", lambda: self.flows_since(0))

    def flows_since(self, moment_s: float) -> bool:
        """Whether something was accepted, and each consumer got something, since then."""
        sent = any(event.at > moment_s for event in self._recent(Accepted))
        got = {
            event.consumer
            for event in self._recent(Delivered)
            if isinstance(event, Delivered) and event.at > moment_s
        }
        return sent and len(got) == len(self._consumers)

    def must(
        self,
        what: str,
        anomaly: str,
        condition: Callable[[], bool],
        *,
        s_max: float = CONDITION_S_MAX,
    ) -> None:
        """Waits for it; that it never came is an anomaly of this name."""
        try:
            wait_until(condition, s_max, what)
        except AssertionError as exc:
            self.run.anomalies.append((anomaly, str(exc)))

    def finish(self, is_drained: Callable[[], bool], *, is_ordered: bool) -> None:
        """Ends the producers, waits until all is consumed, ends the rest, judges."""
        _stop([*self._producers, *self._others])
        self.must("all is consumed", "not-drained", is_drained, s_max=DRAIN_S_MAX)
        _stop(self._consumers)
        run = self.run
        run.anomalies += [
            ("client-failed", f"{client.name}: {client.failure!r}")
            for client in self._clients
            if client.failure is not None
        ]
        run.verdict = judge(run.history, is_ordered=is_ordered)
        run.anomalies += [
            (violation, text)
            for violation, texts in run.verdict.violations.items()
            for text in texts
        ]

    @property
    def _clients(self) -> list[Client]:
        return [*self._producers, *self._consumers, *self._others]

    def _recent(self, kind: type[Event]) -> list[Event]:
        return self.run.history.of(kind)[-RECENT_EVENTS_MAX:]


def _stop(clients: Sequence[Client]) -> None:
    for client in clients:
        client.stop()
    for client in clients:
        client.join(CONDITION_S_MAX + 10)
