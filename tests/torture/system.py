"""Jobs on a whole running service, see ``tests/acceptance/nemesis``.

seed ──▶ order of the faults ──▶ [system_faults] ──▶ a service, hurt again and again ──▶ Part
minutes ──▶ faults that kill nothing ──▶ [soak] ──▶ what grew ──▶ Part
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.acceptance.nemesis.growth import GrowthWatch
from tests.acceptance.nemesis.run import ALL, KILL_NOTHING, Fault, run_faults
from tests.services import running_service
from tests.torture.evidence import Part
from tests.torture.load_parts import part_of

# As larger installations run it: each kind of background work in a process that faults can hit.
LARGE: Final = {"MQ_WEB_WORKERS": "2", "MQ_SEPARATE_WORKERS": "1"}


def system_faults(fault_count: int, seed: int) -> Part:
    """So many faults of one service, at most one of each kind, in an order of the seed's."""
    chosen = random.Random(seed).sample(ALL, fault_count)
    with (
        tempfile.TemporaryDirectory(prefix="sys") as directory,  # short, for sockets
        running_service(Path(directory) / "data", **LARGE) as service,
    ):
        done = run_faults(service, chosen, seed=seed, name="faults")
    return part_of(done, {"faults": len(chosen)})


def soak(minutes: float, seed: int) -> Part:
    """Load for so long with clients that misbehave and pauses; no process may grow."""
    with (
        tempfile.TemporaryDirectory(prefix="sys") as directory,
        running_service(Path(directory) / "data", **LARGE) as service,
    ):
        watch = GrowthWatch(service)
        watch.start()
        done = run_faults(service, _until(minutes, seed), seed=seed, name="soak")
        grown = watch.stop()
    done.anomalies += [("grew", f"{process}: {text}") for process, text in grown.items()]
    largest = {
        f"{process}_mib_at_most": round(max(each.memory_mib for each in samples))
        for process, samples in sorted(watch.samples.items())
    }
    return part_of(done, {"minutes": round(minutes), **largest})


def _until(minutes: float, seed: int) -> Iterator[Fault]:
    faults = dealt(seed)
    until_s = time.monotonic() + minutes * 60
    while time.monotonic() < until_s:
        yield next(faults)


def dealt(seed: int) -> Iterator[Fault]:
    """Faults without end: each kind once, in any order, before one comes again. A soak that drew
    each by itself would leave one out now and then, and a kind that never fired is an anomaly.
    """
    draw = random.Random(seed)
    while True:
        yield from draw.sample(KILL_NOTHING, len(KILL_NOTHING))
