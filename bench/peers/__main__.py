"""``python -m bench.peers``: this service and the peers that are installed, side by side.

A whole run keeps ``evidence/peers.json`` and renders docs/peers.md of it; any other run writes
``bench/results/peers-<time>.json`` and touches neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
import uvloop

from bench.machine import find_commit, find_machine
from bench.measure import MeasureFailed, Skipped
from bench.peers import activemq, nats, ours, rabbitmq
from bench.peers.evidence import EVIDENCE, Evidence, Section, write_evidence
from bench.peers.limits import BareWay
from bench.peers.peer import Peer, PeerFacts
from bench.peers.render import render, table
from bench.peers.turns import Timing, by_turns
from bench.peers.workloads import WORKLOADS, Contenders, Workload
from bench.processes import bare_running
from bench.wrk import require_wrk
from mqservice.cli.errors import ClientError

RESULTS: Final = Path(__file__).resolve().parents[1] / "results"
WHOLE: Final = Timing(seconds=1, warm_up_seconds=0.3, idle_seconds=5, repeats=3)
QUICK: Final = Timing(seconds=1, warm_up_seconds=0.2, idle_seconds=3, repeats=1)
OTHERS: Final = {
    "rabbitmq": rabbitmq.rabbitmq_running,
    "nats": nats.nats_running,
    "activemq": activemq.activemq_running,
}
KEYS: Final = [workload.key for workload in WORKLOADS]


def main(
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"One of {', '.join(KEYS)} (repeatable).")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", help=f"Skip one of {', '.join(OTHERS)} (repeatable)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer workloads, once each.")] = False,
    large: Annotated[
        bool, typer.Option("--large", help="Also run the workloads with ten million messages.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(help="Directory for the measured stores. Default: the temporary directory."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.5, help="Duration of a run.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Runs per measurement.")] = None,
) -> None:
    """Measure this service and its peers on this machine."""
    unknown = [*set(only or ()).difference(KEYS), *set(without or ()).difference(OTHERS)]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} must be one of {', '.join([*KEYS, *OTHERS])}")
    standard = QUICK if quick else WHOLE
    timing = Timing(
        seconds=seconds or standard.seconds,
        warm_up_seconds=standard.warm_up_seconds,
        idle_seconds=standard.idle_seconds,
        repeats=repeats or standard.repeats,
    )
    chosen = _chosen(only, is_quick=quick, is_large=large)
    base = directory or Path(tempfile.gettempdir())
    try:
        require_wrk()
        evidence = uvloop.run(_measure(chosen, timing, base, without or ()))
    except (Skipped, MeasureFailed, ClientError) as exc:
        typer.echo(f"nothing was measured: {exc}", err=True)
        raise typer.Exit(1) from exc
    except asyncio.CancelledError as exc:
        typer.echo("interrupted; no results were saved", err=True)
        raise typer.Exit(128 + signal.SIGTERM) from exc
    typer.echo(table(evidence))
    is_whole = not (only or without or quick)
    stamp = evidence.taken_at.replace(":", "").replace("-", "")[:15]
    path = EVIDENCE if is_whole else RESULTS / f"peers-{stamp}.json"
    write_evidence(path, evidence)
    typer.echo(f"written to {path}, {evidence.seconds:.0f} s", err=True)
    if is_whole:
        for written in render(evidence):
            typer.echo(f"written to {written}", err=True)
    if any(section.failed for section in evidence.sections):
        typer.echo("some results are missing; the table has the reasons", err=True)
        raise typer.Exit(1)


def _chosen(only: Sequence[str] | None, *, is_quick: bool, is_large: bool) -> list[Workload]:
    """In the order of a run; with those named by ``only`` come all that have to go before."""
    if not only:
        return [
            each
            for each in WORKLOADS
            if (each.is_quick or not is_quick) and (is_large or not each.is_large)
        ]
    keys = set(only)
    for each in reversed(WORKLOADS):  # what one needs stands before it
        if each.key in keys and each.needs:
            keys.add(each.needs)
    return [each for each in WORKLOADS if each.key in keys]


async def _measure(
    workloads: Sequence[Workload], timing: Timing, base: Path, without: Sequence[str]
) -> Evidence:
    began = time.perf_counter()
    task = asyncio.current_task()
    assert task is not None
    # So that the peers are ended too, as they are by Ctrl-C.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    skipped: dict[str, str] = {}
    async with contextlib.AsyncExitStack() as stack:
        peers, contenders = await _start(stack, base, without, skipped)
        sections = []
        for workload in workloads:
            _say(f"{time.perf_counter() - began:4.0f} s  {workload.title} ...")
            repeats = 1 if workload.is_single else timing.repeats
            figures, failed = await by_turns(
                workload.key,
                workload.turns(contenders, workload.key),
                msgspec.structs.replace(timing, repeats=repeats),
            )
            sections.append(
                Section(
                    key=workload.key,
                    title=workload.title,
                    unit=workload.unit,
                    how=workload.how,
                    is_less_better=workload.is_less_better,
                    figures=figures,
                    failed=failed,
                )
            )
    return Evidence(
        taken_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        commit=find_commit(),
        machine=find_machine(base),
        timing=timing,
        seconds=round(time.perf_counter() - began, 1),
        peers=peers,
        skipped=skipped,
        sections=sections,
    )


async def _start(
    stack: contextlib.AsyncExitStack, base: Path, without: Sequence[str], skipped: dict[str, str]
) -> tuple[list[PeerFacts], Contenders]:
    """All of them are up for the whole run; which of them works at a time is seen in its CPU."""
    _say("starting mqservice ...")
    own, service = await stack.enter_async_context(ours.ours_running(base))
    bare = await stack.enter_async_context(bare_running(base, service.web_count))
    peers: list[Peer] = [own]
    for name, running in OTHERS.items():
        if name in without:
            skipped[name] = "skipped by --without"
            continue
        _say(f"starting {name} ...")
        started = await _start_one(stack, running(base), skipped, name)
        peers += [started] if started else []
        if started and name == "activemq" and (reason := activemq.why_no_rest()):
            skipped["ActiveMQ REST"] = reason
            _say(f"skipped ActiveMQ REST: {reason}")
    await asyncio.sleep(1)
    return [peer.facts for peer in peers], Contenders(peers, BareWay(bare, own.rests[0]), base)


async def _start_one(
    stack: contextlib.AsyncExitStack,
    running: contextlib.AbstractAsyncContextManager[Peer],
    skipped: dict[str, str],
    name: str,
) -> Peer | None:
    try:
        return await stack.enter_async_context(running)
    except Skipped as exc:
        skipped[name] = str(exc)
        _say(f"skipped {name}: {exc}")
        return None


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    typer.run(main)
