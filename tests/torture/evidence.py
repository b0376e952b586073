"""What a run did and found, as it is kept in ``evidence/`` and read by the page.

    Part of each job ──▶ [merged] ──▶ Step ──▶ Evidence ──▶ JSON, always formatted the same way

Counts are of things that happened, never of things that were asked for. No host, user or path is
part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.machine import Machine
from tests.acceptance.cluster_faults.recording import Recording

FORMAT_VERSION: Final = 1
DETAILS_MAX: Final = 20  # texts of anomalies that are kept; all are counted


class Anomaly(msgspec.Struct, frozen=True):
    """A promise that was not kept; names are those of the checkers."""

    name: str
    detail: str


class Planted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One bug that was put in on purpose. ``caught_as`` is empty when nothing caught it.

    ``caught_by``: a harness, or ids of tests. ``theme``: empty in evidence of before there were.
    """

    name: str
    caught_by: str
    caught_as: str
    theme: str = ""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one job of a step did. ``fired``: faults that really happened, by kind. ``recording``:
    how it looked, where that is kept.
    """

    counts: dict[str, int] = {}
    fired: dict[str, int] = {}
    anomalies: list[Anomaly] = []
    planted: list[Planted] = []
    recording: Recording | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All jobs of one kind. Seeds are ``[seed_start, seed_end)``.

    ``impossible``: why this machine does not allow the step; empty when it does. ``date``,
    ``commit`` and ``machine``: where they are not those of the whole run, because the step was run
    again later, or elsewhere.
    """

    name: str
    seed_start: int
    seed_end: int
    duration_ms: int
    counts: dict[str, int]
    fired: dict[str, int]
    violations: dict[str, int]
    details: list[str] = []
    planted: list[Planted] = []
    impossible: str = ""
    date: str = ""
    commit: str = ""
    machine: Machine | None = None

    @property
    def caught_count(self) -> int:
        return sum(bool(bug.caught_as) for bug in self.planted)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    format_version: int
    date: str
    commit: str
    machine: Machine
    steps: list[Step]

    @property
    def violation_count(self) -> int:
        return sum(sum(step.violations.values()) for step in self.steps)


def with_steps(kept: Evidence, taken: Evidence, names: Sequence[str]) -> Evidence:
    """The evidence that is kept with the steps of a later run in it, in the order of ``names``."""
    elsewhere = taken.machine if taken.machine != kept.machine else None
    later = [
        msgspec.structs.replace(step, date=taken.date, commit=taken.commit, machine=elsewhere)
        for step in taken.steps
    ]
    steps = {step.name: step for step in [*kept.steps, *later]}
    return msgspec.structs.replace(kept, steps=[steps[name] for name in names if name in steps])


def merged(
    name: str, parts: Iterable[Part], *, seed_start: int, seed_end: int, duration_ms: int
) -> Step:
    """One step of its jobs' parts; counts are sums."""
    counts: Counter[str] = Counter()
    fired: Counter[str] = Counter()
    anomalies: list[Anomaly] = []
    planted: list[Planted] = []
    for part in parts:
        counts.update(part.counts)
        fired.update({kind: count for kind, count in part.fired.items() if count})
        anomalies += part.anomalies
        planted += part.planted
    return Step(
        name=name,
        seed_start=seed_start,
        seed_end=seed_end,
        duration_ms=duration_ms,
        counts=dict(counts),
        fired=dict(fired),
        violations=dict(Counter(anomaly.name for anomaly in anomalies)),
        details=[f"{anomaly.name}: {anomaly.detail}" for anomaly in anomalies][:DETAILS_MAX],
        planted=sorted(planted, key=lambda bug: bug.name),
    )


def write_evidence(path: Path, evidence: Evidence) -> None:
    """The same evidence gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.encode(evidence, order="deterministic")
    path.write_bytes(msgspec.json.format(content, indent=2) + b"\n")


def read_evidence(path: Path) -> Evidence:
    """Raises ``ValueError`` when the file is of another version, or no evidence."""
    evidence = msgspec.json.decode(path.read_bytes(), type=Evidence)
    if evidence.format_version != FORMAT_VERSION:
        raise ValueError(f"{path.name} has version {evidence.format_version}, not {FORMAT_VERSION}")
    return evidence
