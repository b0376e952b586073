"""What is wanted of the comparison, each as a ratio of two figures of the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from bench.peers.evidence import Evidence, Section
from bench.peers.turns import Figure

REST_SECTIONS: Final = (
    "rest-one",
    "rest-small",
    "rest-large",
    "receive-one",
    "receive-many",
    "topics-rest",
)
PUSH_SECTIONS: Final = ("push-one", "push-eight", "push-small", "push-large")
REST_TIMES: Final = 10.0
PUSH_TIMES: Final = 1.0
BARE_SHARE: Final = 0.5
CORES_MIN: Final = 0.01


class Goal(NamedTuple):
    """``ratio`` is ours, durable, to the best of the others; ``cpu_ratio``: what the other spends
    on a message, to what we spend, which hardly depends on who else the machine works for.
    """

    name: str
    ratio: float
    cpu_ratio: float
    wanted: float

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.wanted


def find_goals(evidence: Evidence) -> list[Goal]:
    """Those for which both figures are there."""
    return [*_of_rest(evidence), *_of_push(evidence)]


def _of_rest(evidence: Evidence) -> Iterator[Goal]:
    for section in evidence.sections:
        if section.key in REST_SECTIONS:
            yield from _goal(section, "RabbitMQ's HTTP API", _has("RabbitMQ HTTP"), REST_TIMES)
        if section.key == "rest-one":
            yield from _goal(section, "the bare handler", _has("bare"), BARE_SHARE)


def _of_push(evidence: Evidence) -> Iterator[Goal]:
    for section in evidence.sections:
        if section.key in PUSH_SECTIONS:
            yield from _goal(section, "RabbitMQ Web STOMP", _has("Web STOMP"), PUSH_TIMES)
            yield from _goal(section, "NATS over WebSocket", _has("NATS, WebSocket"), PUSH_TIMES)


def _goal(
    section: Section, others: str, is_other: Callable[[Figure], bool], wanted: float
) -> Iterator[Goal]:
    own = [each for each in section.figures if each.way.is_ours and each.way.is_synced]
    other = [each for each in section.figures if is_other(each)]
    if own and other:
        ours, best = max(own, key=_median), max(other, key=_median)
        yield Goal(
            f"{section.title}: ours / {others}",
            ours.median / best.median,
            _cpu_each(best) / _cpu_each(ours),
            wanted,
        )


def _median(figure: Figure) -> float:
    return figure.median


def _cpu_each(figure: Figure) -> float:
    # A process that has used less than a tick of CPU is counted as having used one.
    return max(figure.usage.server_cores, CORES_MIN) / figure.median


def _has(words: str) -> Callable[[Figure], bool]:
    return lambda figure: words in figure.way.label
