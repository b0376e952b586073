"""The audit ends at its configured age, and in no other way."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts.audit import record
from mqservice.accounts.models import AuditEntry
from mqservice.accounts.retention import delete_old_audit
from mqservice.accounts.tasks import clean_up
from tests.people import People

# What somebody with the service's own connection may think of.
WAYS_OUT = [
    "DELETE FROM accounts_auditentry",
    "UPDATE accounts_auditentry SET actor = 'user:nobody'",
    "TRUNCATE accounts_auditentry",
    "TRUNCATE accounts_tenant CASCADE",
    "SET LOCAL mq.audit_retention = 'on'; DELETE FROM accounts_auditentry",
    "SET LOCAL mq.audit_retention = 'on'; UPDATE accounts_auditentry SET actor = 'user:nobody'",
    "SET LOCAL mq.audit_retention = 'on'; TRUNCATE accounts_auditentry",
    "SELECT mq_drop_old_audit(interval '0 days', 10); DELETE FROM accounts_auditentry",
]


def written(people: People, *, days_ago: int) -> None:
    """An entry of that age. Only a new row can be given one."""
    entry = record("user:alice", people.acme, "topic.put", f"topics/{days_ago}")
    columns = [str(field.column) for field in AuditEntry._meta.fields]
    names = ", ".join(column for column in columns if column not in ("id", "at"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO accounts_auditentry (at, {names}) "
            f"SELECT %s, {names} FROM accounts_auditentry WHERE id = %s",
            [timezone.now() - timedelta(days=days_ago), entry.pk],
        )


def ages() -> list[int]:
    now = timezone.now()
    return sorted({(now - row.at).days for row in AuditEntry.objects.all()})


@pytest.mark.parametrize("statement", WAYS_OUT)
def test_nothing_else_removes_or_changes_an_entry(statement: str, people: People) -> None:
    written(people, days_ago=0)
    with connection.cursor() as cursor:
        # Off for the tests' own tidying: see ``django_db_setup``.
        cursor.execute(
            "SET CONSTRAINTS ALL IMMEDIATE; "
            "ALTER TABLE accounts_auditentry ENABLE TRIGGER mq_refuse_audit_truncate"
        )
    with (
        pytest.raises(DatabaseError, match="only ever added"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEntry.objects.count() == 2


def test_entries_go_when_they_are_older_than_configured(people: People, settings: Settings) -> None:
    settings.MQ_AUDIT_DAYS = 100
    for days in (0, 99, 101, 500):
        written(people, days_ago=days)
    clean_up()
    assert ages() == [0, 99]
    clean_up()
    assert ages() == [0, 99]


def test_oldest_go_first_and_so_many_at_a_time(people: People) -> None:
    for days in (401, 500, 600):
        written(people, days_ago=days)
    assert delete_old_audit(at_most=2) == 2
    assert ages() == [0, 401]


def test_whatever_is_asked_for_a_month_is_kept(people: People) -> None:
    for days in (29, 31):
        written(people, days_ago=days)
    with connection.cursor() as cursor:
        cursor.execute("SELECT mq_drop_old_audit(interval '0 days', 100)")
    assert ages() == [0, 29]
