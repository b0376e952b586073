"""``python -m tests.torture run [--quick] [--only STEP]...``, and ``… page`` for the page alone."""

from __future__ import annotations

import datetime
import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from bench.machine import find_commit, find_machine
from tests.torture.coverage import with_coverage
from tests.torture.evidence import (
    FORMAT_VERSION,
    Evidence,
    Step,
    merged,
    read_evidence,
    with_steps,
    write_evidence,
)
from tests.torture.page import EVIDENCE, PAGE, render
from tests.torture.plan import QUICK, Plan
from tests.torture.recorded_run import (
    DRAWING,
    RECORDED_RUN,
    draw,
    read_recorded_run,
    write_recorded_run,
)
from tests.torture.running import run_jobs
from tests.torture.steps import PlannedStep, planned_steps

DETAILS_SHOWN_MAX: Final = 5
console: Final = Console(stderr=True, highlight=False, soft_wrap=True)
app: Final = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command()
def run(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Name of a step (repeatable).")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Eight minutes, to try it; keeps no evidence.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seeds count up from here.")] = 1,
    scale: Annotated[float, typer.Option(min=0.001, help="Times the size of a release run.")] = 1.0,
    processes: Annotated[
        int, typer.Option(min=1, help="Jobs beside each other. Default: one a core.")
    ] = len(os.sched_getaffinity(0)),
    keep: Annotated[
        bool,
        typer.Option("--keep", help="With --only: put the step into the evidence that is kept."),
    ] = False,
    evidence: Annotated[
        Path | None,
        typer.Option(help="Where the JSON goes. Default: evidence/, and the page is made anew."),
    ] = None,
) -> None:
    """Injure the engine at the size of a release and keep what happened as evidence."""
    plan = msgspec.structs.replace((QUICK if quick else Plan()).scaled(scale), seed=seed)
    planned = planned_steps(plan)
    names = only or [step.name for step in planned]
    unknown = set(names) - {step.name for step in planned}
    if unknown:
        known = ", ".join(step.name for step in planned)
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is none of {known}")
    commit = find_commit()
    # Part of a run, or a quick one, must not replace the evidence of a whole one by accident.
    is_kept = evidence is None and not quick and (keep or not only)
    taken = Evidence(
        format_version=FORMAT_VERSION,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        commit=commit,
        machine=find_machine(Path(tempfile.gettempdir())),
        steps=[
            _run_step(step, processes, is_kept=is_kept) for step in planned if step.name in names
        ],
    )
    if evidence is not None:
        write_evidence(evidence, taken)
    elif is_kept:
        if only:
            taken = with_steps(read_evidence(EVIDENCE), taken, [step.name for step in planned])
        write_evidence(EVIDENCE, taken)
        page()
    if taken.violation_count:
        console.print(f"[red]{taken.violation_count} anomalies[/red]")
        raise typer.Exit(1)
    console.print("[green]no anomaly[/green]")


@app.command()
def page() -> None:
    """Make docs/reliability.md and its drawing anew from the evidence that is kept."""
    recorded = read_recorded_run(RECORDED_RUN)
    DRAWING.write_text(draw(recorded.recording))
    PAGE.write_text(render(read_evidence(EVIDENCE), recorded))


def _run_step(planned: PlannedStep, process_count: int, *, is_kept: bool) -> Step:
    started = time.monotonic()
    parts = []
    if planned.jobs:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(planned.name, total=len(planned.jobs))
            for part in run_jobs(planned.jobs, process_count):
                parts.append(part)
                progress.advance(task)
    step = merged(
        planned.name,
        parts,
        seed_start=planned.seed_start,
        seed_end=planned.seed_end,
        duration_ms=round((time.monotonic() - started) * 1_000),
    )
    step = msgspec.structs.replace(step, impossible=planned.impossible)
    if is_kept:  # a smaller run need not come by everything
        step = with_coverage(step)
        for recording in [part.recording for part in parts if part.recording is not None][:1]:
            write_recorded_run(RECORDED_RUN, recording)
    _say(step)
    return step


def _say(step: Step) -> None:
    if step.impossible:
        console.print(f"{step.name}: [yellow]not possible here: {escape(step.impossible)}[/yellow]")
        return
    done = ", ".join(f"{count:,} {name}" for name, count in step.counts.items())
    bad = sum(step.violations.values())
    verdict = f"[red]{bad} anomalies[/red]" if bad else "[green]0 anomalies[/green]"
    console.print(f"{step.name}: {verdict}; {done}; {step.duration_ms / 1_000:.0f} s")
    for detail in step.details[:DETAILS_SHOWN_MAX]:
        console.print(f"  [red]{escape(detail)}[/red]")


if __name__ == "__main__":
    app()
