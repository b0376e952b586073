"""Which jobs a run has: the plan, cut into pieces that can run beside each other.

plan ──▶ [planned_steps] ──▶ PlannedStep: name, seeds, jobs, or why it is impossible here
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.acceptance.cluster_faults.run import ALL as CLUSTER_FAULTS
from tests.acceptance.nemesis.run import ALL as FAULTS
from tests.acceptance.partitions.network import why_no_namespaces
from tests.acceptance.partitions.run import ALL
from tests.planted.catalogue import all_plants
from tests.storage_engine.crash.workloads import WORKLOADS
from tests.storage_engine.faults import machine
from tests.storage_engine.planted.bugs import BUGS
from tests.storage_engine.planted.catchers import SCENARIOS
from tests.torture import named_bugs, work
from tests.torture.cluster import cluster_faults
from tests.torture.partitions import partitions
from tests.torture.plan import Plan
from tests.torture.running import Job
from tests.torture.system import soak, system_faults

# Each at several of its calls; what a start makes comes first, so these begin where work begins.
_ERRORS: Final = (
    ("msync", "EIO", 2),
    ("msync", "ENOSPC", 3),
    ("fdatasync", "EIO", 1),
    ("fsync", "EIO", 8),
    ("fallocate", "ENOSPC", 8),
    ("fallocate", "EIO", 8),
)
_KILLS: Final = (("msync", 1), ("fsync", 2), ("fdatasync", 1), ("fallocate", 1), ("rename", 1))
_DELAY_US: Final = 200_000
_BODY_BYTES: Final = 20_000
_EXAMPLES_A_JOB: Final = 100


class PlannedStep(NamedTuple):
    """Seeds are ``[seed_start, seed_end)``."""

    name: str
    seed_start: int
    seed_end: int
    jobs: list[Job]
    impossible: str = ""


def planned_steps(plan: Plan) -> list[PlannedStep]:
    """All steps in the order in which they run."""
    return [
        _explorations(plan, "crash_states", plan.crash_states),
        _explorations(plan, "crash_in_recovery", plan.recovery_states),
        _seeded(plan, "kills", [Job(work.kills, (n,)) for n in _shares(plan.kills, plan)]),
        _seeded(
            plan, "takeovers", [Job(work.takeovers, (n,)) for n in _shares(plan.takeovers, plan)]
        ),
        _planted(plan),
        _injured(plan),
        _cuts(plan),
        _full_disks(plan),
        _partitions(plan),
        _cluster_faults(plan),
        _system_faults(plan),
        _seeded(plan, "soak", [Job(soak, (plan.soak_minutes,))]),
        _models(plan),
        PlannedStep("recovery_time", 0, 0, [Job(work.recovery_time, (plan.recovered_messages,))]),
    ]


def _explorations(plan: Plan, name: str, state_count: int) -> PlannedStep:
    seed_end = plan.seed + plan.crash_seed_count
    share = -(-state_count // (len(WORKLOADS) * plan.crash_seed_count))
    function = work.crash_states if name == "crash_states" else work.crash_in_recovery
    jobs = [
        Job(function, (workload, seed, share))
        for seed in range(plan.seed, seed_end)
        for workload in WORKLOADS
    ]
    return PlannedStep(name, plan.seed, seed_end, jobs)


def _shares(kill_count: int, plan: Plan) -> list[int]:
    whole, rest = divmod(kill_count, plan.kills_a_loop)
    return [plan.kills_a_loop] * whole + [rest] * bool(rest)


def _seeded(plan: Plan, name: str, jobs: list[Job], impossible: str = "") -> PlannedStep:
    """Each job gets a seed of its own as last argument."""
    if impossible:
        return PlannedStep(name, plan.seed, plan.seed, [], impossible)
    with_seeds = [
        Job(job.work, (*job.arguments, plan.seed + index)) for index, job in enumerate(jobs)
    ]
    return PlannedStep(name, plan.seed, plan.seed + len(jobs), with_seeds)


def _planted(plan: Plan) -> PlannedStep:
    jobs = [Job(work.planted_bug, (bug.name, plan.planted_states)) for bug in BUGS]
    jobs += [Job(work.unplanted, (scenario,)) for scenario in sorted(SCENARIOS)]
    themes: dict[str, list[str]] = {}
    for plant in all_plants():
        themes.setdefault(plant.theme, []).append(plant.name)
    is_whole = plan.planted_a_theme >= max(map(len, themes.values()))
    if is_whole:  # tests of a theme without a bug in them, which `make test` runs as well
        jobs += [Job(named_bugs.unplanted_tests, (theme,)) for theme in themes]
    jobs += [
        Job(named_bugs.named_bug, (name,))
        for names in themes.values()
        for name in names[: plan.planted_a_theme]
    ]
    return PlannedStep("planted_bugs", 0, 0, jobs)


def _injured(plan: Plan) -> PlannedStep:
    numbers = range(plan.fault_numbers)
    injections = [
        f"{call}:error={error}:when={first + 2 * number}"
        for number in numbers
        for call, error, first in _ERRORS
    ]
    injections += [
        f"{call}:signal=KILL:when={first + number}" for number in numbers for call, first in _KILLS
    ]
    injections += [f"msync:delay_enter={_DELAY_US}:when={1 + number}+20" for number in numbers]
    jobs = [Job(work.injured_calls, (injection,)) for injection in injections]
    return _seeded(plan, "injured_system_calls", jobs, machine.why_no_strace())


def _cuts(plan: Plan) -> PlannedStep:
    whole, rest = divmod(plan.cuts, plan.cuts_a_disk)
    shares = [plan.cuts_a_disk] * whole + [rest] * bool(rest)
    jobs = [Job(work.power_cuts, (share,)) for share in shares]
    jobs += [Job(work.async_power_cut, ())] * plan.async_cuts
    return _seeded(plan, "power_cuts", jobs, machine.why_no_mounts())


def _full_disks(plan: Plan) -> PlannedStep:
    reason = machine.why_no_mounts()
    sizes = [_BODY_BYTES // (number + 1) for number in range(plan.full_disks)]
    jobs = [] if reason else [Job(work.full_disk, (size,)) for size in sizes]
    return PlannedStep("full_disks", 0, 0, jobs, reason)


def _partitions(plan: Plan) -> PlannedStep:
    whole, rest = divmod(plan.partitions, len(ALL))
    shares = [len(ALL)] * whole + [rest] * bool(rest)
    jobs = [Job(partitions, (share,)) for share in shares]
    return _seeded(plan, "partitions", jobs, why_no_namespaces())


def _cluster_faults(plan: Plan) -> PlannedStep:
    whole, rest = divmod(plan.cluster_faults, len(CLUSTER_FAULTS))
    shares = [len(CLUSTER_FAULTS)] * whole + [rest] * bool(rest)
    jobs = [Job(cluster_faults, (share,)) for share in shares]
    return _seeded(plan, "cluster_faults", jobs, why_no_namespaces())


def _system_faults(plan: Plan) -> PlannedStep:
    whole, rest = divmod(plan.system_faults, len(FAULTS))
    shares = [len(FAULTS)] * whole + [rest] * bool(rest)
    return _seeded(plan, "system_faults", [Job(system_faults, (share,)) for share in shares])


def _models(plan: Plan) -> PlannedStep:
    whole, rest = divmod(plan.examples, _EXAMPLES_A_JOB)
    shares = [_EXAMPLES_A_JOB] * whole + [rest] * bool(rest)
    return _seeded(plan, "delivery_model", [Job(work.delivery_model, (n,)) for n in shares])
