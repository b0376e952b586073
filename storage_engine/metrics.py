"""Numbers as Prometheus reads them: fixed-bucket histograms and the text of version 0.0.4.

    flusher ── observe(value) ──▶ [Histogram]
    engine_metrics ── families ──▶ [render] ──▶ text, made only when somebody asks

No registry and no locks: a counter is an int of whoever counts, read when it is asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"


class Histogram:
    """How often a value was at most each bound. One thread observes; any thread reads."""

    __slots__ = ("_counts", "bounds", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        assert list(bounds) == sorted(set(bounds)), "bounds ascend"
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """Observations at or below each bound, and all of them last."""
        total = 0
        return [total := total + count for count in list(self._counts)]


class Family(NamedTuple):
    """One metric. ``samples`` are (labels as they stand in the text, or empty; value)."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, float]]


def single(name: str, kind: str, help_: str, value: float) -> Family:
    """A metric without labels."""
    return Family(name, kind, help_, [("", value)])


def histogram(name: str, help_: str, observed: Histogram) -> Family:
    """The buckets of a histogram, with its sum and count."""
    counts = observed.cumulative()
    bounds = [*map(_number, observed.bounds), "+Inf"]
    samples = [
        (f'_bucket{{le="{bound}"}}', float(count))
        for bound, count in zip(bounds, counts, strict=True)
    ]
    samples += [("_sum", observed.sum), ("_count", float(counts[-1]))]
    return Family(name, HISTOGRAM, help_, samples)


def label(name: str, value: str) -> str:
    """``name="value"``, with the three signs escaped that would end the value."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'{name}="{escaped}"'


def render(families: Iterable[Family]) -> bytes:
    """The text exposition of all families."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        lines += [f"{family.name}{suffix} {_number(value)}\n" for suffix, value in family.samples]
    return "".join(lines).encode()


def _number(value: float) -> str:
    """Whole numbers without a fraction, so that no digit of a large counter is lost."""
    return str(int(value)) if value == int(value) else repr(float(value))
