"""The program ``mqservice``: puts the commands of the neighbouring modules under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from mqservice import __version__
from mqservice.cli import (
    admin,
    alert,
    audit,
    backup,
    connection,
    definitions,
    dlq,
    engine,
    group,
    group_clients,
    group_settings,
    invitation,
    issue,
    key,
    mask,
    member,
    message,
    namespace,
    quota,
    report,
    schedule,
    scheduled,
    topic,
)
from mqservice.cli.browse import browse
from mqservice.cli.consume import consume
from mqservice.cli.produce import produce
from mqservice.cli.restart import restart
from mqservice.cli.status import status, stop
from mqservice.cli.transfer import export_store, import_store
from mqservice.cli.up import up
from mqservice.cli.usage import usage


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"mqservice {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="mqservice",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks with the values of local variables would print keys and passwords.
    pretty_exceptions_show_locals=False,
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


app.command()(up)
app.command()(status)
app.command()(stop)
app.command()(restart)
app.command()(produce)
app.command()(consume)
app.command()(browse)
app.add_typer(topic.app, name="topic")
group.app.add_typer(group_settings.app)  # without a name: one set of commands
group.app.add_typer(group_clients.app)
app.add_typer(group.app, name="group")
app.add_typer(definitions.app, name="definitions")
app.add_typer(connection.app, name="connection")
app.add_typer(message.app, name="message")
app.add_typer(dlq.app, name="dlq")
app.add_typer(scheduled.app, name="scheduled")
app.add_typer(schedule.app, name="schedule")
app.add_typer(alert.app, name="alert")
app.add_typer(mask.app, name="mask")
app.add_typer(issue.app, name="issue")
app.add_typer(quota.app, name="quota")
app.command()(usage)
app.add_typer(key.app, name="key")
app.add_typer(namespace.app, name="namespace")
app.add_typer(member.app, name="member")
app.add_typer(invitation.app, name="invitation")
app.add_typer(audit.app, name="audit")
app.add_typer(report.app, name="report")
app.add_typer(admin.app, name="admin")
app.add_typer(engine.app, name="engine")
app.add_typer(backup.app, name="backup")
app.command("import-store")(import_store)
app.command("export-store")(export_store)

if __name__ == "__main__":
    app()
