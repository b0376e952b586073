"""``manage.py prepare``: waits for its line, makes tables where some are missing, then the demo."""

from __future__ import annotations

import io

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from mqservice.accounts.models import Tenant
from mqservice.console.management.commands import prepare
from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.restore_stamp import STAMP_TABLE


@pytest.fixture
def migrations_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the commands that were called instead of running."""
    called: list[str] = []
    monkeypatch.setattr(prepare, "call_command", lambda name, **options: called.append(name))
    return called


def has_stamp() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [STAMP_TABLE])
        (found,) = cursor.fetchone()
        return found is not None


def test_an_end_of_input_is_no_order_to_begin(
    db: None, monkeypatch: pytest.MonkeyPatch, migrations_run: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="before the line to begin"):
        call_command("prepare")
    assert migrations_run == []


def test_the_demo_follows_the_tables(
    db: None, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = generate_api_key()
    monkeypatch.setenv("MQ_BOOTSTRAP_PASSWORD", "a password for the demo")
    monkeypatch.setenv("MQ_BOOTSTRAP_API_KEY", key)
    monkeypatch.setattr("sys.stdin", io.StringIO("go\ngo\n"))
    output = io.StringIO()
    call_command("prepare", stdout=output)
    first, second = output.getvalue().splitlines()
    assert first == prepare.TABLES_READY
    assert msgspec.json.decode(second)["api_key"] == key
    assert Tenant.objects.filter(name="demo").exists()


def test_tables_of_this_version_are_not_migrated_again(db: None, migrations_run: list[str]) -> None:
    """As by ``migrate``, the database is no longer what a restore has made of it."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {STAMP_TABLE} ()")
    assert has_stamp()
    prepare.make_tables()
    assert migrations_run == []
    assert not has_stamp()


def test_a_missing_migration_is_run(db: None, migrations_run: list[str]) -> None:
    """As after a start that was killed, or of a version before."""
    MigrationRecorder(connection).record_unapplied("reports", "0001_initial")
    prepare.make_tables()
    assert migrations_run == ["migrate"]


def test_migrate_refuses_tables_of_another_version_too(db: None) -> None:
    """Deployments without ``mqservice up`` call it; it would fail halfway through."""
    MigrationRecorder(connection).record_unapplied("console", "0001_initial")
    MigrationRecorder(connection).record_applied("console", "0001_before_they_were_squashed")
    with pytest.raises(CommandError, match=r"Another version .* empty database"):
        call_command("migrate", interactive=False, verbosity=0)
