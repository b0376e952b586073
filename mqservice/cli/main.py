"""The program ``mqservice``: puts the commands of the neighbouring modules under one name."""

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
        "up": _command("Start the whole service and watch over it.", "up"),
        "status": _command("Show whether the service here is ready.", "status"),
        "stop": _command("Stop the service here in order.", "status"),
        "restart": _command("Replace processes of the service here.", "restart"),
        "login": _command("Save a server's address and API key as a profile.", "login"),
        "profile": _group("List, choose and remove saved profiles.", "profile"),
        "produce": _command("Send messages to a topic.", "produce"),
        "consume": _command("Receive messages and print them.", "consume"),
        "browse": _command("Look at messages without receiving them.", "browse"),
        "topic": _group("Create, list, show, change, purge and delete topics.", "topic"),
        "group": _group(
            "Consumer groups: settings, pauses, progress.",
            "group",
            "group_settings",
            "group_clients",
        ),
        "definitions": _group("Export and import topics and groups.", "definitions"),
        "connection": _group("Open WebSockets: list and end them.", "connection"),
        "message": _group("One message: where it has been.", "message"),
        "dlq": _group("Dead letters: list, redrive, purge.", "dlq"),
        "scheduled": _group("Messages for later: list, cancel, send, move.", "scheduled"),
        "schedule": _group("Messages at times of a cron expression.", "schedule"),
        "alert": _group("Alert rules: list, set, delete, history.", "alert"),
        "mask": _group("Masking rules of the console.", "mask"),
        "issue": _group("Issues: dead letters by their cause.", "issue"),
        "quota": _group("Show quotas, and lower them.", "quota"),
        "usage": _command("Show what the tenant has used.", "usage"),
        "key": _group("Create, list, change, rotate and revoke API keys.", "key"),
        "namespace": _group("List namespaces, and make one read-only.", "namespace"),
        "member": _group("List members, change their roles, remove them.", "member"),
        "invitation": _group("Invite people, list and withdraw invitations.", "invitation"),
        "audit": _group("Who changed what, and when.", "audit"),
        "report": _group("Reports that Spark makes each night.", "report"),
        "admin": _group("What the operator does on the service's machine.", "admin"),
        "engine": _group("Tools for the store's files.", "engine"),
        "import-store": _command("Make a data directory of a RocketMQ store.", "transfer"),
        "export-store": _command("Write a namespace as a store that RocketMQ opens.", "transfer"),
        "backup": _group("Back up and restore the whole installation.", "backup"),
        "completion": _command("Print a script that completes commands in a shell.", "completion"),
    }


EPILOG = """\b
Exit codes: 0 done; 1 failed or refused; 2 the command line makes no sense;
3 the outcome of some messages is unknown; 130 interrupted.
"""


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
