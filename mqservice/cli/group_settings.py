"""``mqservice group``: create, change, show, pause and delete consumer groups."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import takes
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.rest_groups import Group, GroupCalls
from mqservice.cli.tables import Table
from mqservice.cli.target import BaseUrlOption, KeyOption, NamespaceOption, Target
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, StartFrom

UNLIMITED: Final = "unlimited"

app = typer.Typer()


class Policy(enum.StrEnum):
    LEVELS = "levels"
    LIST = "list"
    EXPONENTIAL = "exponential"


NameArgument = Annotated[str, typer.Argument(help="Up to 64 letters, digits, - and _.")]
StartFromOption = Annotated[
    StartFrom | None,
    typer.Option(
        "--start-from",
        help=("Where to start on a topic that the group has never read; earliest for a new group."),
    ),
]
StartTimeOption = Annotated[
    str | None,
    typer.Option(
        "--start-time",
        help="With timestamp: start with messages stored at or after this time, in RFC 3339.",
    ),
]
LeaseOption = Annotated[
    str | None, typer.Option("--lease", help="How long a message is leased: 30s, 5m.")
]
ConsumeTimeoutOption = Annotated[
    str | None,
    typer.Option("--consume-timeout", help="How long a consumer can extend its lease: 10s to 12h."),
]
MaxAttemptsOption = Annotated[
    str | None,
    typer.Option("--max-attempts", help=f"Maximum deliveries, 1 to 1000, or {UNLIMITED}."),
]
RetryOption = Annotated[
    Policy | None,
    typer.Option("--retry", help="How long a failed message waits; the default is levels."),
]
DelayOption = Annotated[
    list[str] | None,
    typer.Option("--delay", help="For list: one delay after the other, such as 10s; repeatable."),
]
StartOption = Annotated[
    str | None, typer.Option("--retry-start", help="For exponential: the first delay.")
]
FactorOption = Annotated[
    float | None,
    typer.Option("--retry-factor", help="For exponential: factor from one delay to the next."),
]
CapOption = Annotated[
    str | None, typer.Option("--retry-cap", help="For exponential: the longest delay.")
]
DispatchOption = Annotated[
    Dispatch | None,
    typer.Option(
        "--dispatch",
        help=(
            "shared: any consumer reads any queue; exclusive: each reads its own; "
            "broadcast: every client reads all."
        ),
    ),
]
StrategyOption = Annotated[
    AssignmentStrategy | None,
    typer.Option("--strategy", help="For exclusive dispatch: how queues are assigned."),
]
OrderedOption = Annotated[
    bool | None,
    typer.Option(
        "--ordered/--unordered", help="Retry a failed message before the messages after it."
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch-per-group",
        help="For ordered groups: messages of a message group at the same time, 1 to 32.",
    ),
]
ConsumerOption = Annotated[
    list[str] | None,
    typer.Option("--consumer", metavar="ID=QUEUES", help="For CONFIG: w1=0,1; once per consumer."),
]
RoomOption = Annotated[
    list[str] | None,
    typer.Option("--room", metavar="NAME=QUEUES", help="For machine rooms: east=0,1; repeatable."),
]
ReadOption = Annotated[
    list[str] | None,
    typer.Option("--read-room", help="For MACHINE_ROOM: a room whose queues are read; repeatable."),
]
WithinOption = Annotated[
    AssignmentStrategy | None,
    typer.Option("--within-room", help="For MACHINE_ROOM_NEARBY: strategy within a room."),
]


@dataclass
class Settings:
    """The options of ``create`` and ``update``; what is None was not given."""

    start_from: StartFromOption = None
    start_time: StartTimeOption = None
    lease: LeaseOption = None
    consume_timeout: ConsumeTimeoutOption = None
    max_attempts: MaxAttemptsOption = None
    retry: RetryOption = None
    delays: DelayOption = None
    retry_start: StartOption = None
    retry_factor: FactorOption = None
    retry_cap: CapOption = None
    dispatch: DispatchOption = None
    strategy: StrategyOption = None
    is_ordered: OrderedOption = None
    batch_per_group: BatchOption = None
    consumers: ConsumerOption = None
    rooms: RoomOption = None
    read: ReadOption = None
    within_room: WithinOption = None

    def fields(self) -> dict[str, object]:
        """What is sent; ends the command when it makes no sense."""
        fields: dict[str, object] = {}
        start_from = self.start_from
        if self.start_time is not None and start_from is None:
            start_from = StartFrom.TIMESTAMP
        given = {
            "start_time": self.start_time,
            "start_from": start_from,
            "lease": self.lease,
            "consume_timeout": self.consume_timeout,
            "dispatch": self.dispatch,
            "strategy": self.strategy,
            "ordered": self.is_ordered,
            "batch_per_group": self.batch_per_group,
            "retry": self._retry(),
            "assignment": self._assignment(),
        }
        fields.update({name: value for name, value in given.items() if value is not None})
        if self.max_attempts == UNLIMITED:
            fields["max_attempts"] = None
        elif self.max_attempts is not None:
            if not (self.max_attempts.isascii() and self.max_attempts.isdecimal()):
                screen.fail(UsageError(f"--max-attempts must be a number or {UNLIMITED}"))
            fields["max_attempts"] = int(self.max_attempts)
        return fields

    def _retry(self) -> dict[str, object] | None:
        """The policy named, or the one that the other options belong to."""
        given = {
            "delays": self.delays or None,
            "start": self.retry_start,
            "factor": self.retry_factor,
            "cap": self.retry_cap,
        }
        retry: dict[str, object] = {
            name: value for name, value in given.items() if value is not None
        }
        policy = self.retry
        if policy is None and retry:
            policy = Policy.LIST if "delays" in retry else Policy.EXPONENTIAL
        return None if policy is None else {"policy": policy, **retry}

    def _assignment(self) -> dict[str, object] | None:
        given = {
            "consumers": _queues_of("--consumer", self.consumers),
            "rooms": _queues_of("--room", self.rooms),
            "read": self.read or None,
            "within_room": self.within_room,
        }
        return {name: value for name, value in given.items() if value is not None} or None


def _queues_of(option: str, texts: list[str] | None) -> dict[str, list[int]] | None:
    """``["w1=0,1", "w2=2"]`` as the API writes it; ends the command when it is of another form."""
    found: dict[str, list[int]] = {}
    for text in texts or ():
        name, separator, queues = text.partition("=")
        numbers = queues.split(",") if queues else []
        if not (name and separator and all(each.isascii() and each.isdigit() for each in numbers)):
            screen.fail(UsageError(f"{option} must be NAME=QUEUE,QUEUE…, found {text!r}"))
        if name in found:
            screen.fail(UsageError(f"{option} names {name!r} twice"))
        found[name] = [int(each) for each in numbers]
    return found or None


@app.command("create")
@takes(Settings)
def create(
    settings: Settings,
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Create a group. Creating it again with the same settings changes nothing."""
    fields = settings.fields()
    _put(screen.target_of(base_url, key, namespace), name, fields, is_new=True)


@app.command("update")
@takes(Settings)
def update(
    settings: Settings,
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Change an existing group. Settings that are not given are left unchanged."""
    fields = settings.fields()
    if not fields:
        screen.fail(UsageError("nothing to change: give at least one setting"))
    _put(screen.target_of(base_url, key, namespace), name, fields, is_new=False)


@app.command("show")
def show(
    name: NameArgument,
    form: FormOption = Output.TABLE,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Show a group with its lag."""
    screen.run(_show(screen.target_of(base_url, key, namespace), name, form=form))


@app.command("list")
def list_groups(
    form: FormOption = Output.TABLE,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """List the groups of the namespace."""
    screen.run(_list(screen.target_of(base_url, key, namespace), form=form))


@app.command("pause")
def pause(
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Deliver nothing to the group until it is resumed."""
    _call(
        screen.target_of(base_url, key, namespace),
        lambda groups: groups.set_paused(name, is_paused=True),
        f"group {name} was paused",
    )


@app.command("resume")
def resume(
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Resume a paused group."""
    _call(
        screen.target_of(base_url, key, namespace),
        lambda groups: groups.set_paused(name, is_paused=False),
        f"group {name} was resumed",
    )


@app.command("delete")
def delete(
    name: NameArgument,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Delete a group with its progress, its retries and its dead letters."""
    target = screen.target_of(base_url, key, namespace)
    if not is_sure:
        typer.confirm(f"Delete group {name} with its dead letters?", abort=True, err=True)
    _call(target, lambda groups: groups.delete(name), f"group {name} was deleted")


def _put(target: Target, name: str, settings: dict[str, object], *, is_new: bool) -> None:
    async def put(groups: GroupCalls) -> None:
        if not is_new:
            await groups.group(name)  # a change does not make a group
        await groups.put(name, settings)

    _call(target, put, f"group {name} was created" if is_new else f"group {name} was changed")


def _call(target: Target, call: Callable[[GroupCalls], Awaitable[object]], done: str) -> None:
    async def run() -> int:
        async with RestClient(target) as client:
            await call(GroupCalls(client))
        screen.notice(done)
        return 0

    screen.run(run())


async def _show(target: Target, name: str, *, form: Output) -> int:
    async with RestClient(target) as client:
        group = await GroupCalls(client).group(name)
    if prints(form, group):
        return 0
    table = Table("setting", "value")
    for setting, value in zip(_COLUMNS, _row(group), strict=True):
        table.add_row(setting, value)
    for part, queues in group.assignment.items():
        table.add_row(part, str(queues))
    table.add_row("lag", group.lag_text)
    screen.show(table)
    return 0


async def _list(target: Target, *, form: Output) -> int:
    async with RestClient(target) as client:
        groups = await GroupCalls(client).groups()
    if prints(form, groups):
        return 0
    table = Table(*_COLUMNS)
    for group in groups:
        table.add_row(*_row(group))
    screen.show(table)
    return 0


_COLUMNS: Final = (
    "group",
    "start from",
    "lease",
    "consume timeout",
    "max attempts",
    "retry",
    "dispatch",
    "state",
)


def _row(group: Group) -> tuple[str, ...]:
    attempts = UNLIMITED if group.max_attempts is None else str(group.max_attempts)
    state = "paused" if group.paused else "running"
    retry, dispatch = str(group.retry), group.dispatch_text
    leases = group.lease, group.consume_timeout
    return group.name, group.start_from, *leases, attempts, retry, dispatch, state
