"""``mqservice group``: create, change, look at, pause and delete consumer groups."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
import typer
from rich.table import Table

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import ClientError, UsageRefused
from mqservice.cli.rest_groups import Group, GroupCalls
from mqservice.cli.target import (
    BaseUrlOption,
    KeyOption,
    NamespaceOption,
    Target,
    find_target,
)

UNLIMITED: Final = "unlimited"

app = typer.Typer()


class StartFrom(enum.StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"


class Dispatch(enum.StrEnum):
    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    BROADCAST = "broadcast"


class Policy(enum.StrEnum):
    LEVELS = "levels"
    LIST = "list"
    EXPONENTIAL = "exponential"


NameArgument = Annotated[str, typer.Argument(help="Letters, digits, - and _; up to 64.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
StartFromOption = Annotated[
    StartFrom | None,
    typer.Option("--start-from", help="Where it begins on a topic it has never read."),
]
StartTimeOption = Annotated[
    str | None,
    typer.Option("--start-time", help="Begin with what was stored then or later, RFC 3339."),
]
LeaseOption = Annotated[
    str | None, typer.Option("--lease", help="How long a message is a consumer's: 30s, 5m.")
]
ConsumeTimeoutOption = Annotated[
    str | None,
    typer.Option("--consume-timeout", help="How long a consumer can extend that: 10s to 12h."),
]
DispatchOption = Annotated[
    Dispatch | None,
    typer.Option("--dispatch", help="Who reads a queue: any consumer, its own one, every client."),
]
MaxAttemptsOption = Annotated[
    str | None,
    typer.Option("--max-attempts", help=f"Deliveries in all, 1 to 1000, or {UNLIMITED}."),
]
RetryOption = Annotated[
    Policy | None,
    typer.Option("--retry", help="How long a failed message waits; the default is levels."),
]
DelayOption = Annotated[
    list[str] | None,
    typer.Option("--delay", help="For a list: one delay after the other, as 10s; repeatable."),
]
StartOption = Annotated[
    str | None, typer.Option("--retry-start", help="For exponential: the first delay.")
]
FactorOption = Annotated[
    float | None, typer.Option("--retry-factor", help="For exponential: from one to the next.")
]
CapOption = Annotated[
    str | None, typer.Option("--retry-cap", help="For exponential: no delay is longer.")
]


@app.command("create")
def create(
    name: NameArgument,
    start_from: StartFromOption = None,
    start_time: StartTimeOption = None,
    lease: LeaseOption = None,
    consume_timeout: ConsumeTimeoutOption = None,
    dispatch: DispatchOption = None,
    max_attempts: MaxAttemptsOption = None,
    retry: RetryOption = None,
    delays: DelayOption = None,
    retry_start: StartOption = None,
    retry_factor: FactorOption = None,
    retry_cap: CapOption = None,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Create a group. Creating it again with the same settings changes nothing."""
    settings = _settings(start_from, start_time, lease, consume_timeout, dispatch, max_attempts)
    _add_retry(settings, retry, delays, retry_start, retry_factor, retry_cap)
    _put(_target(base_url, key, namespace), name, settings, is_new=True)


@app.command("update")
def update(
    name: NameArgument,
    start_from: StartFromOption = None,
    start_time: StartTimeOption = None,
    lease: LeaseOption = None,
    consume_timeout: ConsumeTimeoutOption = None,
    dispatch: DispatchOption = None,
    max_attempts: MaxAttemptsOption = None,
    retry: RetryOption = None,
    delays: DelayOption = None,
    retry_start: StartOption = None,
    retry_factor: FactorOption = None,
    retry_cap: CapOption = None,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Change a group that exists. What is not given stays as it is."""
    settings = _settings(start_from, start_time, lease, consume_timeout, dispatch, max_attempts)
    _add_retry(settings, retry, delays, retry_start, retry_factor, retry_cap)
    if not settings:
        screen.fail(UsageRefused("nothing to change: give at least one setting"))
    _put(_target(base_url, key, namespace), name, settings, is_new=False)


@app.command("show")
def show(
    name: NameArgument,
    as_json: JsonOption = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Show a group with its lag."""
    screen.run(_show(_target(base_url, key, namespace), name, as_json=as_json))


@app.command("list")
def list_groups(
    as_json: Annotated[bool, typer.Option("--json", help="NDJSON instead of a table.")] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """List the groups of the namespace."""
    screen.run(_list(_target(base_url, key, namespace), as_json=as_json))


@app.command("pause")
def pause(
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Deliver nothing to the group until it is resumed."""
    _call(
        _target(base_url, key, namespace),
        lambda groups: groups.set_paused(name, is_paused=True),
        f"group {name} is paused",
    )


@app.command("resume")
def resume(
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Let a paused group go on."""
    _call(
        _target(base_url, key, namespace),
        lambda groups: groups.set_paused(name, is_paused=False),
        f"group {name} goes on",
    )


@app.command("delete")
def delete(
    name: NameArgument,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Delete a group with its progress, its retries and its dead letters."""
    target = _target(base_url, key, namespace)
    if not is_sure:
        typer.confirm(f"Delete group {name} with its dead letters?", abort=True, err=True)
    _call(target, lambda groups: groups.delete(name), f"group {name} is deleted")


def _target(base_url: str | None, key: str | None, namespace: str | None) -> Target:
    try:
        return find_target(base_url, key, namespace)
    except ClientError as exc:
        screen.fail(exc)


def _settings(
    start_from: StartFrom | None,
    start_time: str | None,
    lease: str | None,
    consume_timeout: str | None,
    dispatch: Dispatch | None,
    max_attempts: str | None,
) -> dict[str, object]:
    settings: dict[str, object] = {}
    if start_time is not None:
        settings["start_time"] = start_time
        start_from = start_from or StartFrom.TIMESTAMP
    if start_from is not None:
        settings["start_from"] = start_from
    if lease is not None:
        settings["lease"] = lease
    if consume_timeout is not None:
        settings["consume_timeout"] = consume_timeout
    if dispatch is not None:
        settings["dispatch"] = dispatch
    if max_attempts == UNLIMITED:
        settings["max_attempts"] = None
    elif max_attempts is not None:
        if not (max_attempts.isascii() and max_attempts.isdecimal()):
            screen.fail(UsageRefused(f"--max-attempts is a number or {UNLIMITED}"))
        settings["max_attempts"] = int(max_attempts)
    return settings


def _add_retry(
    settings: dict[str, object],
    policy: Policy | None,
    delays: list[str] | None,
    start: str | None,
    factor: float | None,
    cap: str | None,
) -> None:
    """The policy named, or the one that the other options belong to."""
    given = {"delays": delays or None, "start": start, "factor": factor, "cap": cap}
    retry = {name: value for name, value in given.items() if value is not None}
    if policy is None and retry:
        policy = Policy.LIST if "delays" in retry else Policy.EXPONENTIAL
    if policy is not None:
        settings["retry"] = {"policy": policy, **retry}


def _put(target: Target, name: str, settings: dict[str, object], *, is_new: bool) -> None:
    async def put(groups: GroupCalls) -> None:
        if not is_new:
            await groups.group(name)  # a change does not make a group
        await groups.put(name, settings)

    _call(target, put, f"group {name} is there" if is_new else f"group {name} is changed")


def _call(target: Target, call: Callable[[GroupCalls], Awaitable[object]], done: str) -> None:
    async def run() -> int:
        async with RestClient(target) as client:
            await call(GroupCalls(client))
        screen.notice(done)
        return 0

    screen.run(run())


async def _show(target: Target, name: str, *, as_json: bool) -> int:
    async with RestClient(target) as client:
        group = await GroupCalls(client).group(name)
    if as_json:
        typer.echo(msgspec.json.encode(group))
        return 0
    table = Table("setting", "value")
    for setting, value in zip(_COLUMNS, _row(group), strict=True):
        table.add_row(setting, value)
    table.add_row("lag", group.lag_text)
    screen.results.print(table)
    return 0


async def _list(target: Target, *, as_json: bool) -> int:
    async with RestClient(target) as client:
        groups = await GroupCalls(client).groups()
    if as_json:
        for group in groups:
            typer.echo(msgspec.json.encode(group))
        return 0
    table = Table(*_COLUMNS)
    for group in groups:
        table.add_row(*_row(group))
    screen.results.print(table)
    return 0


_COLUMNS: Final = ("group", "dispatch", "start from", "lease", "max attempts", "retry", "state")


def _row(group: Group) -> tuple[str, ...]:
    attempts = UNLIMITED if group.max_attempts is None else str(group.max_attempts)
    state = "paused" if group.paused else "running"
    shown = group.name, group.dispatch, group.start_from, group.lease
    return *shown, attempts, str(group.retry), state
