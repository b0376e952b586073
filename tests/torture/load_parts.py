"""What a load under faults did, as part of a step: the same counts whatever the faults were."""

from __future__ import annotations

from tests.acceptance.history.load import LoadRun
from tests.torture.evidence import Anomaly, Part


def part_of(run: LoadRun, counts: dict[str, int]) -> Part:
    """``counts`` of the step come first."""
    verdict = run.verdict
    return Part(
        counts={
            **counts,
            **run.counts,
            "acked": verdict.accepted_count,
            "deliveries": verdict.delivered_count,
            **{f"again: {cause}": count for cause, count in verdict.explained.items()},
        },
        fired=dict(run.fired),
        anomalies=[Anomaly(name, detail) for name, detail in run.anomalies],
    )
