"""Makes the page of promises and measurements from the committed evidence.

evidence/storage_engine.json, promises ──▶ [render] ──▶ docs/reliability.md

A test compares the page with what this makes of the committed evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.planted.catalogue import all_plants
from tests.storage_engine.planted.bugs import BUGS
from tests.torture.coverage import FAULTS
from tests.torture.evidence import Evidence, Step
from tests.torture.idempotency_promises import ONCE
from tests.torture.order_promises import ORDER
from tests.torture.promise import Promise
from tests.torture.promises import (
    DURABILITY,
    NOT_PROMISED,
    STORE,
)
from tests.torture.recorded_run import DRAWING, RecordedRun
from tests.torture.replication_promises import REPLICATION
from tests.torture.schedule_promises import SCHEDULE
from tests.torture.service_promises import SERVICE

ROOT: Final = Path(__file__).resolve().parents[2]
EVIDENCE: Final = ROOT / "evidence" / "storage_engine.json"
PAGE: Final = ROOT / "docs" / "reliability.md"

_HEAD: Final = """\
# Reliability

<!-- Made by `python -m tests.torture page` from evidence/storage_engine.json. Do not edit. -->

What the storage engine and the service promise, which tests try to break each promise, and what a
run of all of them at release size has found. A promise applies to *acknowledged* requests: those
that got a success response. A put has three outcomes:

| outcome | the client got | the message |
|---|---|---|
| acked | success, with an offset | exists, as promised below |
| refused | an error with `stored: false` | does not exist and never will |
| unknown | anything else: a timeout, a lost connection, another error | may exist or not |
"""
_TOPICS: Final = """
Every topic is `sync` (the default: the response is sent after the message is on disk) or `async`
(the response is sent immediately, and the message is on disk within 200 ms).
"""
_TITLES: Final = {
    "crash_states": "Crash states",
    "crash_in_recovery": "Crashes inside recovery",
    "kills": "Kills",
    "takeovers": "Takeovers",
    "planted_bugs": "Planted bugs",
    "injured_system_calls": "Injected system call faults",
    "power_cuts": "Power cuts",
    "full_disks": "Full disks",
    "partitions": "Partitions",
    "cluster_faults": "Faults of a cluster",
    "system_faults": "Faults of the whole service",
    "soak": "Soak",
    "delivery_model": "Delivery model",
    "recovery_time": "Recovery time",
}
_TEXTS: Final = {
    "crash_states": "A workload runs while all its system calls are recorded. A power failure is "
    "simulated at every one of them: each unsynced page, name and file length may be on disk or "
    "not, torn at any sector. The store is recovered from each different state of a recording and "
    "every promise checked; every second one is recovered twice. The states that a kill leaves are "
    "tested as well.",
    "crash_in_recovery": "The recovery from such a state is recorded in turn, and a power failure "
    "is simulated at every moment of it.",
    "kills": "A real engine process under load is killed at random moments, also while it starts. "
    "Then everything is drained, and the whole history of the clients is checked.",
    "takeovers": "The owner of a shard with a replicated log is killed at random moments under "
    "load. It starts again, or its disk is lost too: then a replica takes over, or an engine "
    "with an empty disk that has only the log. Replicas and starting owners are killed as well. At "
    "the end everything is drained, and the history of the clients is checked: no message of a "
    "`replicated` topic may be lost, invented, or delivered before the log had it.",
    "planted_bugs": "A test of the tests: one bug at a time is planted, and must be noticed by a "
    "harness of the engine or by a named test that must fail. A bug that no test reached, or that "
    "crashed by itself, counts as an anomaly and not as caught. The same scenarios and tests run "
    "without a bug (*controls*) and must find nothing. Disk bugs are planted in each run of all "
    "tests, the others in release runs.",
    "injured_system_calls": "An unmodified engine process whose system calls fail, wait 200 ms, or "
    "are the last thing it does (strace). *Not reached*: the run ended before that call came.",
    "power_cuts": "An ext4 file system in an image is cut off from its disk under a running "
    "engine, mounted again, and the engine started. A cut may lose the newest messages of async "
    "topics; any older than the window (and 300 ms of slack for the sync itself) would be an "
    "anomaly.",
    "full_disks": "A small disk is filled until puts are rejected; reading and checkpoints must "
    "continue, and puts must be accepted within ten seconds after space is freed.",
    "partitions": "Clients, web process with engine, workers, PostgreSQL and Valkey run on hosts "
    "of their own (network namespaces), and one link at a time drops all packets, one way or both, "
    "for seconds; once for so long that cached look-ups expire. Messages must continue to flow "
    "while the databases are cut off, the control plane must respond to every request, everything "
    "must work again within a minute, and the history of the clients must have no loss, no "
    "invented message, no reordering and no repetition without a cause. A cut that dropped no "
    "packet does not count.",
    "cluster_faults": "Three nodes, a web process, beat with its worker, PostgreSQL, Valkey and an "
    "object store run on hosts of their own (network namespaces), with the commands and settings "
    "of `compose.cluster.yaml`. Producers send to a `replicated` topic, some with a delay, "
    "consumers over REST and WebSocket ack them, another client creates topics and deletes them "
    "again, and one schedules messages and cancels most of them, while the machine of their "
    "shard's owner is killed, paused, cut off or loses its disk, the shard is moved, and all nodes "
    "are restarted. After each fault every shard must have an owner and two replicas again, "
    "without help. At the end the topic is read from its beginning: what was acknowledged or "
    "delivered and is not at its place was so before the replicated log had it. No message may be "
    "lost, early, invented, or delivered again without a cause; only settles of the last 250 ms "
    "that an owner could reach the log may be forgotten, and later ones. Topics must be there, or "
    "gone with their messages, as was confirmed, and no message that was cancelled may come.",
    "system_faults": "A whole service with two web processes, under load over REST and WebSocket. "
    "Each of its processes is killed, or stopped for seconds, a backend of PostgreSQL is killed, "
    "twenty clients subscribe, never read and vanish, a tenant sends far beyond its quota, 32 "
    "connections send as fast as they can. Parts that messages do not pass through must not stop "
    "them. Within two minutes after each fault, without help, messages must reach every consumer, "
    "the control plane must respond, workers and beat must do their work and the service must "
    "report no problem; and the history of the clients must have no loss, no invented message, no "
    "reordering and no repetition without a cause. The counts are processes, clients that never "
    "read what they were sent, rejections by the quota and requests of the overload.",
    "soak": "The same load, and those of these faults that kill nothing, for minutes. Anonymous "
    "memory and open files of each process are sampled every two seconds: the last quarter of the "
    "time must not have over a tenth and 8 MiB, or 16 files, more than the second quarter.",
    "delivery_model": "Random receives, settles, nacks, extensions, waits and restarts, compared "
    "with a simple model.",
    "recovery_time": "An engine is killed, checkpoint, consume queues and index are deleted, and "
    "the next start reads everything again.",
}
_REPEAT: Final = """
## Run it yourself

```sh
make torture                                      # the long tests, then a release run
make torture QUICK=1                              # the same, small; keeps no evidence
.venv/bin/python -m tests.torture run --quick     # eight minutes, keeps no evidence
.venv/bin/python -m tests.torture run --only kills --scale 4 --seed 1000
.venv/bin/python -m tests.torture run --only planted_bugs --keep   # again, into the evidence
```

A run ends with exit code 1 when it finds an anomaly. Steps that a machine does not allow (tracing,
mounting, network namespaces: they need Linux, and mostly root) are named in the evidence and
skipped. `make test` runs one test of each kind at a smaller size; longer tests have the mark
`torture`, and `make torture` runs them.
"""


def render(evidence: Evidence, recorded: RecordedRun | None = None) -> str:
    """The whole page; the same evidence gives the same text."""
    return "".join(
        [
            _HEAD,
            _TOPICS,
            _promises("Durability", DURABILITY),
            _promises("Replicated topics", REPLICATION),
            _promises("Order and offsets", ORDER),
            _promises("Store and recovery", STORE),
            _promises("Scheduled messages", SCHEDULE),
            _promises("Repeated requests", ONCE),
            _promises("Limits and liveness", SERVICE),
            "\n## Not promised, or not tested\n\n",
            *(f"* {text}\n" for text in NOT_PROMISED),
            _measured(evidence),
            _coverage(evidence),
            *(_step(step, recorded) for step in evidence.steps),
            _REPEAT,
        ]
    )


def _promises(title: str, promises: Iterable[Promise]) -> str:
    rows = [f"\n## {title}\n\n"]
    for promise in promises:
        rows.append(f"**{promise.id}.** {promise.text}\n\n")
        rows += [f"* `{name}`\n" for name in promise.tests]
        titles = ", ".join(_link(step) for step in promise.steps)
        rows += [f"* release runs: {titles}\n"] if titles else []
        rows.append("\n")
    return "".join(rows).rstrip("\n") + "\n"


def _link(step: str) -> str:
    anchor = _TITLES[step].lower().replace(" ", "-")
    return f"[{_TITLES[step].lower()}](#{anchor})"


def _measured(evidence: Evidence) -> str:
    machine = evidence.machine
    steps = [step for step in evidence.steps if not step.impossible]
    on_paper = [step for step in steps if step.name.startswith("crash_")]
    states = sum(_total(on_paper, name) for name in ("states", "states_after_kill"))
    whole = [step for step in steps if step.name in ("system_faults", "soak")]
    engine = [step for step in steps if step not in on_paper and step not in whole]
    fired = sum(sum(step.fired.values()) for step in engine)
    acked = _total(steps, "acked")
    rows = [
        "\n## What the last release run found\n\n",
        f"{evidence.date}, commit `{evidence.commit}`. {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_gib} GiB, Linux {machine.kernel}, {machine.disk}, "
        f"Python {machine.python}. Crash states and the model are in memory.\n\n",
        f"**{states:,} crash states recovered, {fired:,} faults in real engine processes and "
        f"networks, {_total(whole, 'faults'):,} of a whole service, "
        f"{acked:,} acknowledged messages checked: "
        f"{_plural(evidence.violation_count, 'anomaly', 'anomalies')}",
        *(
            f"; {step.caught_count} of {len(step.planted)} planted bugs caught"
            for step in steps
            if step.planted
        ),
        ".**\n\n| step | seeds | anomalies | time |\n|---|---|---|---|\n",
    ]
    for step in evidence.steps:
        rows.append(
            f"| {_link(step.name)}{_later(step)} | {_seeds(step)} | {_violations(step)} "
            f"| {_time(step)} |\n"
        )
    return "".join(rows)


def _later(step: Step) -> str:
    if not step.commit:
        return ""
    where = f" on {step.machine.cpu}, {step.machine.cores} cores" if step.machine else ""
    return f" ({step.date}, commit `{step.commit}`{where})"


def _step(step: Step, recorded: RecordedRun | None) -> str:
    rows = [f"\n### {_TITLES[step.name]}\n\n{_TEXTS[step.name]}\n\n"]
    if step.impossible:
        return "".join([*rows, f"Not possible on that machine: {step.impossible}.\n"])
    rows.append("| count | |\n|---|---|\n")
    rows += [f"| {name.replace('_', ' ')} | {count:,} |\n" for name, count in step.counts.items()]
    if step.name == "cluster_faults" and recorded is not None:
        rows += _recorded(recorded)
    rows += _planted(step)
    if step.details:
        rows.append("\nAnomalies:\n\n")
        rows += [f"* `{detail}`\n" for detail in step.details]
    return "".join(rows)


def _recorded(run: RecordedRun) -> list[str]:
    machine, found = run.machine, run.recording
    return [
        f"\nThe course of one such run ({run.date}, commit `{run.commit}`, {found.object_store}). "
        f"All hosts shared one machine: {machine.cpu}, {machine.cores} cores.\n\n"
        f"![Messages acknowledged and delivered per second, and latencies]({DRAWING.name})\n\n"
        "| fault | longest time without an acknowledgement | what became of the shard |\n"
        "|---|---|---|\n",
        *(f"| {each.name} | {each.gap_ms / 1_000:.1f} s | {each.text} |\n" for each in found.marks),
    ]


def _planted(step: Step) -> list[str]:
    """A table for each theme, with the bugs that are new or removed since."""
    rows = _untried(step) if step.name == "planted_bugs" else []
    for theme in sorted({bug.theme for bug in step.planted}):
        bugs = [bug for bug in step.planted if bug.theme == theme]
        if theme:
            caught_count = sum(bool(bug.caught_as) for bug in bugs)
            rows.append(f"\n**{theme}**: {caught_count} of {len(bugs)} caught\n")
        rows.append("\n| planted bug | tested by | caught as |\n|---|---|---|\n")
        rows += [
            f"| {bug.name.replace('_', ' ')} | {_catchers(bug.caught_by)} "
            f"| {bug.caught_as or '**not caught**'} |\n"
            for bug in bugs
        ]
    return rows


def _untried(step: Step) -> list[str]:
    """Where the catalogues of today and of the run are not the same."""
    now = {plant.name for plant in all_plants()} | {bug.name for bug in BUGS}
    then = {bug.name for bug in step.planted}
    rows = [f"\nThe catalogues have {_plural(len(now), 'bug', 'bugs')}"]
    if fresh := sorted(now - then):
        rows.append(f". Not yet in this run: {_quoted(fresh)}")
    if gone := sorted(then - now):
        rows.append(f". No longer in them: {_quoted(gone)}")
    return ["".join(rows) + ".\n"]


def _quoted(names: list[str]) -> str:
    """Names of bugs, each of which reads like a sentence."""
    return ", ".join(f'"{name.replace("_", " ")}"' for name in names)


def _catchers(caught_by: str) -> str:
    """A harness in words; tests by their names."""
    if "::" not in caught_by and "/" not in caught_by:
        return caught_by.replace("_", " ")
    return "<br>".join(_catcher(test) for test in caught_by.split(", "))


def _catcher(test: str) -> str:
    """A test that was removed since the run is not shown as code, which names what exists."""
    exists = (ROOT / test.partition("::")[0]).exists()
    return f"`{test}`" if exists else f"{test} (removed since)"


def _coverage(evidence: Evidence) -> str:
    """Every kind of fault that a run must fire, and how often this one did."""
    rows = [
        "\n### Faults that fired\n\nThe kinds of faults that a release run must fire; one that "
        "never fired is an anomaly.\n\n| fault | in | times |\n|---|---|---|\n"
    ]
    for step in evidence.steps:
        rows += [
            f"| {kind} | {_TITLES[step.name].lower()} | {_times(step, kind)} |\n"
            for kind in FAULTS.get(step.name, ())
        ]
    return "".join(rows)


def _times(step: Step, kind: str) -> str:
    if step.impossible:
        return "not possible there"
    return f"{step.fired[kind]:,}" if step.fired.get(kind) else "**never**"


def _total(steps: Iterable[Step], name: str) -> int:
    return sum(step.counts.get(name, 0) for step in steps)


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _seeds(step: Step) -> str:
    if step.seed_start == step.seed_end:
        return "–"
    return f"{step.seed_start} to {step.seed_end - 1}"


def _violations(step: Step) -> str:
    if step.impossible:
        return "not possible there"
    named = ", ".join(f"{name} {count}" for name, count in step.violations.items())
    return named or "0"


def _time(step: Step) -> str:
    return f"{step.duration_ms / 1_000:,.0f} s"
