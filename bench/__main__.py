"""``python -m bench [--quick] [--only NAME]...``: run workloads, print the table, keep the JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from bench import (
    analytics,
    attacks,
    authorisation,
    backlog,
    clients,
    console,
    disk,
    engine,
    footprint,
    idle,
    latency,
    neighbours,
    offsets,
    push,
    python_client,
    replicated,
    replicated_log,
    rest,
    scale,
    schedule,
    sharing,
    sqs,
    takeover,
    tenants,
)
from bench.machine import find_machine
from bench.measure import QUICK, MeasureFailed, Plan, Row, Skipped
from bench.report import make_report, print_table, write_json
from mqservice.cli.errors import ClientError
from storage_engine.client import StoreError

RESULTS: Final = Path(__file__).parent / "results"
WORKLOADS: Final[dict[str, Callable[[Plan, Path], Awaitable[list[Row]]]]] = {
    "disk": disk.measure,
    "engine": engine.measure,
    "rest": rest.measure,
    "push": push.measure,
    "sharing": sharing.measure,
    "latency": latency.measure,
    "neighbours": neighbours.measure,
}
# Minutes, and some of them many GiB: only when asked for.
LARGE: Final = {
    "attacks": attacks.measure,
    "clients": clients.measure,
    "python-client": python_client.measure,
    "typescript-client": python_client.measure_typescript,
    "footprint": footprint.measure,
    "idle": idle.measure,
    "scale": scale.measure,
    "backlog": backlog.measure,
    "offsets": offsets.measure,
    "replicated-log": replicated_log.measure,
    "replicated": replicated.measure,
    "takeover": takeover.measure,
    "schedule": schedule.measure,
    "analytics": analytics.measure,
    "tenants": tenants.measure,
    "authorisation": authorisation.measure,
    "sqs": sqs.measure,
    "console": console.measure,
}


def main(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help=f"One of {', '.join([*WORKLOADS, *LARGE])} (repeatable)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short runs, once each: a smoke test.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(help="Directory for the measured stores. Default: the temporary directory."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.5, help="Duration of a run.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Runs per measurement.")] = None,
) -> None:
    """Measure the engine and the service on this machine."""
    names = only or list(WORKLOADS)
    known = {**WORKLOADS, **LARGE}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} must be one of {', '.join(known)}")
    standard = QUICK if quick else Plan()
    plan = Plan(
        warm_up_ms=standard.warm_up_ms,
        duration_ms=standard.duration_ms if seconds is None else round(seconds * 1000),
        repeats=repeats or standard.repeats,
    )
    base = directory or Path(tempfile.gettempdir())
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name in names:
        typer.echo(f"measuring {name} ...", err=True)
        try:
            rows += uvloop.run(_measure(name, plan, base))
        except Skipped as exc:
            skipped[name] = str(exc)
        except (MeasureFailed, StoreError, ClientError) as exc:
            failed[name] = str(exc)
    report = make_report(find_machine(base), plan, rows, skipped=skipped, failed=failed)
    print_table(report)
    path = write_json(report, RESULTS)
    typer.echo(f"written to {path}", err=True)
    if any(row.is_met is False for row in rows):
        typer.echo("some results are below the target", err=True)
    if failed:
        raise typer.Exit(1)


async def _measure(name: str, plan: Plan, base: Path) -> list[Row]:
    return await {**WORKLOADS, **LARGE}[name](plan, base)


if __name__ == "__main__":
    typer.run(main)
