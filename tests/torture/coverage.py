"""Which kinds of faults a release run must have fired, step by step.

    Step ── fired ──▶ [never_fired] ──▶ kinds that did not: an anomaly of a whole run

A fault that never fired has tested nothing, however green the step is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tests.acceptance.cluster_faults.run import ALL as ALL_CLUSTER_FAULTS
from tests.acceptance.nemesis.run import ALL as ALL_FAULTS
from tests.acceptance.nemesis.run import KILL_NOTHING
from tests.acceptance.partitions.run import ALL as ALL_PARTITIONS
from tests.storage_engine.replication.takeovers import FAULTS as TAKEOVER_FAULTS
from tests.torture.evidence import DETAILS_MAX, Step

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "crash_states": (
        "power cut",
        "kill",
        "msync EIO, injected",
        "fsync EIO, injected",
        "fallocate ENOSPC, injected",
    ),
    "crash_in_recovery": ("power cut inside recovery",),
    "kills": ("kill -9", "kill -9 of a starting engine"),
    "takeovers": TAKEOVER_FAULTS,
    "injured_system_calls": (
        "EIO from msync",
        "ENOSPC from msync",
        "EIO from fdatasync",
        "EIO from fsync",
        "ENOSPC from fallocate",
        "EIO from fallocate",
        "delay of msync",
        "kill -9 at msync",
        "kill -9 at fsync",
        "kill -9 at fdatasync",
        "kill -9 at fallocate",
        "kill -9 at rename",
    ),
    "power_cuts": ("power cut of ext4",),
    "full_disks": ("put on a full disk",),
    "partitions": tuple(str(partition) for partition in ALL_PARTITIONS),
    "cluster_faults": tuple(fault.name for fault in ALL_CLUSTER_FAULTS),
    "system_faults": tuple(fault.name for fault in ALL_FAULTS),
    "soak": tuple(fault.name for fault in KILL_NOTHING),
    "recovery_time": ("kill -9",),
}
NEVER_FIRED: Final = "fault-never-fired"


def never_fired(step: Step) -> list[str]:
    """Kinds that a step should have fired; none for one that is impossible there."""
    if step.impossible:
        return []
    return [kind for kind in FAULTS.get(step.name, ()) if not step.fired.get(kind)]


def with_coverage(step: Step) -> Step:
    """The step, with an anomaly for each kind of fault that never fired in it."""
    missing = never_fired(step)
    if not missing:
        return step
    details = step.details + [f"{NEVER_FIRED}: {kind}" for kind in missing]
    return msgspec.structs.replace(
        step,
        violations={**step.violations, NEVER_FIRED: len(missing)},
        details=details[:DETAILS_MAX],
    )
