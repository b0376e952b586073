"""``mqservice shard``: the engines of an installation, on a machine that reaches its database.

list, and after each change; history ─▶ stdout: a table, or NDJSON
"""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.audit import Entry, entries_table
from mqservice.cli.long_work import exit_on_error, progress_bar
from mqservice.cli.operator_commands import run_operator_command
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.status import DataDirOption
from mqservice.cli.tables import Table
from mqservice.lib.names import MAIN_SHARD
from mqservice.shards.split_lines import SplitLine, SplitPlan, SplitProgress, SplitReturn

app = typer.Typer(no_args_is_help=True, help="Shards: the engines of an installation.")

NameArgument = Annotated[str, typer.Argument(metavar="SHARD", help="Name of the shard.")]


class _Replica(msgspec.Struct, kw_only=True):
    node: str
    is_heard: bool
    is_following: bool
    lag_bytes: int

    def __str__(self) -> str:
        if not self.is_following:
            return f"{self.node} ({'catching up' if self.is_heard else 'down'})"
        lag = f"{-(-self.lag_bytes // 1024)} KiB behind" if self.lag_bytes else "up to date"
        return f"{self.node} ({lag})"


class _Shard(msgspec.Struct, kw_only=True):
    name: str
    state: str
    is_alive: bool
    address: str
    owner: str
    epoch: int
    replicas: list[_Replica]
    namespaces: int
    free_bytes: int | None
    heartbeat_at: str | None


@app.command("list")
def list_shards(form: FormOption = Output.TABLE, data_dir: DataDirOption = None) -> None:
    """List the shards: who owns each and where it answers, the nodes that could take it over and
    how far they lag, how many namespaces it has, when it was last heard of.
    """
    _show(run_operator_command(data_dir, ["shard", "list"]), form)


@app.command("add")
def add(
    name: NameArgument,
    address: Annotated[
        str, typer.Option("--address", help="tcp://HOST:PORT or tls://HOST:PORT of its engine.")
    ] = "",
    data_dir: DataDirOption = None,
) -> None:
    """Add a shard whose engine no node announces; nodes add their own."""
    _show(run_operator_command(data_dir, ["shard", f"--address={address}", "--", "add", name]))


@app.command("drain")
def drain(name: NameArgument, data_dir: DataDirOption = None) -> None:
    """Have a shard take no new namespaces; those that it has stay."""
    _show(run_operator_command(data_dir, ["shard", "--", "drain", name]))


@app.command("activate")
def activate(name: NameArgument, data_dir: DataDirOption = None) -> None:
    """Have a drained shard take new namespaces again."""
    _show(run_operator_command(data_dir, ["shard", "--", "activate", name]))


@app.command("remove")
def remove(name: NameArgument, data_dir: DataDirOption = None) -> None:
    """Forget a drained shard without namespaces; its store stays on its disk."""
    _show(run_operator_command(data_dir, ["shard", "--", "remove", name]))


@app.command("place")
def place(
    namespace: Annotated[str, typer.Argument(help="Namespace without topics and groups.")],
    name: NameArgument,
    data_dir: DataDirOption = None,
) -> None:
    """Choose the shard of a namespace that has nothing yet."""
    arguments = ["shard", f"--namespace={namespace}", "--", "place", name]
    _show(run_operator_command(data_dir, arguments))


@app.command("move")
def move(
    name: NameArgument,
    node: Annotated[str, typer.Argument(help="Node with a replica of the shard.")],
    data_dir: DataDirOption = None,
) -> None:
    """Hand a shard over to another node, without losing anything and within a second or so."""
    listed = run_operator_command(data_dir, ["shard", f"--node={node}", "--", "move", name])
    screen.notice(f"{node} serves {name} now")
    _show(listed)


@app.command("split")
def split(
    name: NameArgument,
    into: Annotated[
        str,
        typer.Argument(metavar="INTO", help="Shard without namespaces."),
    ],
    namespaces: Annotated[
        list[str], typer.Option("--namespace", help="Namespace to move; repeat for more.")
    ],
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would move, and what it takes.")
    ] = False,
    form: FormOption = Output.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """Move namespaces of a shard, with everything they have, into an empty one.

    Nothing acknowledged is lost, and producers and consumers stay connected: their requests wait
    for a second or so at the end. Run it on the machine that serves the shard. The other one must
    be there too; with a replicated log it comes here for the copy, and goes back.
    """
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.supervisor.errors import SupervisorError
    from mqservice.supervisor.operator_commands import stream_command

    place = data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()
    arguments = ["split_shard", *[f"--namespace={each}" for each in namespaces]]
    arguments += ["--dry-run"] if is_dry_run else []
    with exit_on_error(SupervisorError), progress_bar(f"Copying {name}") as copied:
        for text in stream_command(os.environ, place, [*arguments, "--", name, into]):
            line: SplitLine = msgspec.json.decode(text, type=SplitLine)
            if isinstance(line, SplitProgress):
                copied(line.done_bytes, line.total_bytes)
            elif isinstance(line, SplitReturn):
                screen.notice(
                    f"{line.node} serves {into} again"
                    if line.is_done
                    else f"{line.node} fetches what {into} has now, and serves it again then"
                )
            elif prints(form, line):
                continue
            elif isinstance(line, SplitPlan):
                screen.show(_plan_table(line))
            else:
                screen.notice(
                    f"{into} has {line.topics} topics and {line.groups} groups of {name} now; "
                    f"requests for them waited {line.held_ms} ms at most"
                )


def _plan_table(plan: SplitPlan) -> Table:
    table = Table("what", "amount")
    mib = 1024**2
    rows = {
        "namespaces": ", ".join(plan.namespaces),
        "topics": plan.topics,
        "groups": plan.groups,
        "messages": plan.messages,
        "size of the messages": f"{plan.stored_bytes // mib} MiB",
        "dead letters": plan.dead_letters,
        "waiting for a retry": plan.retries,
        "scheduled": plan.scheduled,
        "leased now, delivered again": plan.leases,
        f"copied to {plan.target} first": f"{plan.copied_bytes // mib} MiB",
        "of that only in the bucket": f"{plan.fetched_bytes // mib} MiB",
        "free disk": f"{plan.free_bytes // mib} MiB",
    }
    if plan.node:
        rows["handed to this machine first"] = f"{plan.target}, and back to {plan.node}"
    for what, amount in rows.items():
        table.add_row(what, screen.without_controls(str(amount)))
    return table


@app.command("detach")
def detach(
    name: NameArgument,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether it can be done, and where to.")
    ] = False,
    has_left_before: Annotated[
        bool,
        typer.Option(
            "--again", help="It was detached before, and the disk with its store is lost."
        ),
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Take a shard off its replicated log, so that this machine serves it without one.

    Stop its nodes first. What this machine does not have of the shard is downloaded, nobody can
    take it over from the log any more, and its replicated topics become sync.
    """
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.transfers.detaching import detach as take_off
    from mqservice.transfers.errors import TransferError

    place = data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()
    with exit_on_error(TransferError):
        store = take_off(
            os.environ, place, name, is_dry_run=is_dry_run, has_left_before=has_left_before
        )
    if is_dry_run:
        screen.notice(
            f"no node has {name}; it would be downloaded into {store}, end its replicated log, and "
            "its replicated topics would become sync"
        )
        return
    serving = (
        "`mqservice up`" if name == MAIN_SHARD else f"`mqservice up` and MQ_SHARDS=main,{name}"
    )
    screen.notice(f"{store} has all of {name}; start it with {serving}, without MQ_REPLICATED_LOG")


@app.command("history")
def history(form: FormOption = Output.TABLE, data_dir: DataDirOption = None) -> None:
    """List who changed what about the shards, the newest first: takeovers, moves, drains and the
    others; as many as the audit log keeps, 50 at most.
    """
    lines = run_operator_command(data_dir, ["shard", "history"]).strip().splitlines()
    if prints(form, [msgspec.Raw(line.encode()) for line in lines]):
        return
    screen.show(entries_table([msgspec.json.decode(line, type=Entry) for line in lines]))


def _show(text: str, form: Output = Output.TABLE) -> None:
    lines = text.strip().splitlines()
    if prints(form, [msgspec.Raw(line.encode()) for line in lines]):
        return
    table = Table(
        "shard", "state", "node", "address", "epoch", "replicas", "namespaces", "free disk",
        "last heartbeat",
    )  # fmt: skip
    for line in lines:
        row = msgspec.json.decode(line, type=_Shard)
        cells = (
            row.name,
            row.state if row.is_alive else f"{row.state}, down",
            row.owner,
            row.address,
            str(row.epoch),
            "; ".join(map(str, row.replicas)),
            str(row.namespaces),
            "" if row.free_bytes is None else f"{row.free_bytes // 1024**3} GiB",
            row.heartbeat_at or "",
        )
        table.add_row(*(screen.without_controls(each) for each in cells))
    screen.show(table)
