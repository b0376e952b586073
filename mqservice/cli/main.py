"""The program ``mqservice``: combines the commands of the neighbouring modules."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from mqservice import __version__
from mqservice.cli.lazy import Entry, LazyGroup


def _command(summary: str, module: str) -> Entry:
    return Entry(summary, (module,), is_group=False)


def _group(summary: str, *modules: str) -> Entry:
    return Entry(summary, modules)


class Program(LazyGroup):
    entries: ClassVar = {
        "up": _command("Start the whole service and supervise it.", "up"),
        "status": _command("Show whether the local service is ready.", "status"),
        "stop": _command("Stop the local service cleanly.", "status"),
        "restart": _command("Restart processes of the local service.", "restart"),
        "login": _command("Save a server's address and API key as a profile.", "login"),
        "profile": _group("List, choose and remove saved profiles.", "profile"),
        "produce": _command("Send messages to a topic.", "produce"),
        "consume": _command("Receive messages and print them.", "consume"),
        "browse": _command("Browse messages without receiving them.", "browse"),
        "search": _command("Search messages by key, tag, time, body or property.", "search"),
        "saved-search": _group("Searches that a namespace shares.", "saved_search"),
        "topic": _group("Create, list, show, change, purge and delete topics.", "topic"),
        "schema": _group("Schemas of topics: how the console decodes their bodies.", "schema"),
        "group": _group(
            "Consumer groups: settings, pauses, progress.",
            "group",
            "group_settings",
            "group_clients",
        ),
        "definitions": _group("Export and import topics and groups.", "definitions"),
        "connection": _group("Open WebSockets: list and disconnect them.", "connection"),
        "message": _group("Show what happened to a message.", "message"),
        "dlq": _group("Dead letters: list, redrive, purge.", "dlq"),
        "scheduled": _group("Scheduled messages: list, cancel, send, reschedule.", "scheduled"),
        "schedule": _group("Schedules: messages sent at times of a cron expression.", "schedule"),
        "alert": _group("Alert rules: list, set, delete, history.", "alert"),
        "mask": _group("Masking rules of the console.", "mask"),
        "issue": _group("Issues: dead letters by their cause.", "issue"),
        "quota": _group("Show quotas, and lower them.", "quota"),
        "usage": _command("Show the tenant's usage.", "usage"),
        "key": _group("Create, list, change, rotate and revoke API keys.", "key"),
        "namespace": _group("List namespaces, and make one read-only.", "namespace"),
        "member": _group("List members, change their roles, remove them.", "member"),
        "invitation": _group("Invite users, list and withdraw invitations.", "invitation"),
        "audit": _group("Who changed what, and when.", "audit"),
        "report": _group("Nightly reports.", "report"),
        "admin": _group("Operator commands, run on the service's machine.", "admin"),
        "shard": _group("Shards: the engines of an installation.", "shard"),
        "node": _command("Run engines of shards on this machine.", "node"),
        "drill": _group("Practise what happens when a machine is gone.", "drill"),
        "engine": _group("Tools for the store's files.", "engine"),
        "import-store": _command("Import a RocketMQ store into a new data directory.", "transfer"),
        "export-store": _command(
            "Export a namespace as a store that RocketMQ can open.", "transfer"
        ),
        "backup": _group("Back up and restore the whole installation.", "backup"),
        "completion": _command("Print a script for shell completion.", "completion"),
    }


EPILOG = (
    "\b\nExit codes: 0 done; 1 failed or rejected; 2 invalid command line;\n3 the "
    "outcome of some messages is unknown; 130 interrupted.\n"
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"mqservice {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="mqservice",
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    epilog=EPILOG,
    # Tracebacks with the values of local variables would print keys and passwords.
    pretty_exceptions_enable=False,
)


@app.callback()
def mqservice(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A managed message queue: run it, and send and receive messages."""


if __name__ == "__main__":
    app()
