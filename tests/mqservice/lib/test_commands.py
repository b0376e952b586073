"""The service's Django commands, and the checks that they leave out."""

from __future__ import annotations

import psycopg
import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from mqservice.lib.commands import ServiceCommand
from mqservice.lib.database_options import database_options

OWN = {name: app for name, app in get_commands().items() if app.startswith("mqservice.")}


def test_checks_find_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("check", fail_level="INFO")
    assert "System check identified no issues" in capsys.readouterr().out


@pytest.mark.parametrize("name", OWN)
def test_a_command_begins_at_once(name: str) -> None:
    assert isinstance(load_command_class(OWN[name], name), ServiceCommand)


@pytest.mark.parametrize(
    ("error", "is_said_in_a_line"),
    [
        (psycopg.OperationalError("connection failed:\n\tIs the server running?"), True),
        (psycopg.errors.TooManyConnections("sorry"), True),
        (psycopg.errors.LockNotAvailable("lock timeout"), True),
        (psycopg.errors.QueryCanceled("statement timeout"), True),
        (psycopg.errors.ObjectInUse("pending trigger events"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_database_that_is_away_or_busy_is_named_without_a_traceback(
    error: psycopg.OperationalError, is_said_in_a_line: bool
) -> None:
    class Command(ServiceCommand):
        def handle(self, *args: object, **options: object) -> None:
            with connection.wrap_database_errors:
                raise error

    with pytest.raises(CommandError if is_said_in_a_line else OperationalError) as caught:
        call_command(Command())
    if is_said_in_a_line:
        words = " ".join(str(error).split())
        assert str(caught.value) == f"cannot use PostgreSQL now: {words}"


def test_a_command_waits_longer_for_its_connection_than_a_request() -> None:
    web, command = (database_options("", process) for process in ("web", "manage"))
    assert command["connect_timeout"] >= 10 * web["connect_timeout"]
