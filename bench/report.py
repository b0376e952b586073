"""Rows as a table for people and as JSON for comparisons."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.machine import Machine, find_commit
from bench.measure import Plan, Row


class Report(msgspec.Struct, frozen=True, kw_only=True):
    taken_at: str
    commit: str
    machine: Machine
    plan: Plan
    rows: list[Row]
    skipped: dict[str, str]
    failed: dict[str, str]


def make_report(
    machine: Machine,
    plan: Plan,
    rows: list[Row],
    *,
    skipped: dict[str, str],
    failed: dict[str, str],
) -> Report:
    now = datetime.datetime.now(datetime.UTC)
    return Report(
        taken_at=now.isoformat(timespec="seconds"),
        commit=find_commit(),
        machine=machine,
        plan=plan,
        rows=rows,
        skipped=skipped,
        failed=failed,
    )


def write_json(report: Report, directory: Path) -> Path:
    """One file a run, named by its time."""
    directory.mkdir(parents=True, exist_ok=True)
    stamp = report.taken_at.replace(":", "").replace("-", "")[:15]
    path = directory / f"{stamp}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return path


def print_table(report: Report) -> None:
    console = Console(width=None if Console().is_terminal else 140)
    machine = report.machine
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, Linux {machine.kernel}, "
        f"Python {machine.python}, {machine.disk}; commit {report.commit}",
        highlight=False,
    )
    console.print(f"{report.plan.text}. CPU in cores. All on this one machine.", highlight=False)
    table = Table("workload", "what", "median", "runs", "wanted", "CPU", "more")
    for row in report.rows:
        table.add_row(
            row.workload,
            row.name,
            f"{number(row.median)} {row.unit}",
            " ".join(number(run) for run in row.runs),
            _verdict(row),
            " ".join(f"{name} {cores:.2f}" for name, cores in row.cpu.items()),
            " ".join(f"{name}={value:g}" for name, value in row.extra.items()),
        )
    console.print(table)
    for workload, reason in report.skipped.items():
        console.print(f"[yellow]skipped {workload}:[/yellow] {escape(reason)}", highlight=False)
    for workload, reason in report.failed.items():
        console.print(f"[red]failed {workload}:[/red] {escape(reason)}", highlight=False)


def _verdict(row: Row) -> str:
    if row.target is None:
        return ""
    colour = "green" if row.is_met else "red"
    sign = "<=" if row.is_less_better else ">="
    return f"[{colour}]{sign} {number(row.target)}[/{colour}]"


def number(value: float) -> str:
    """Three figures, or all of a large number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
