"""The operator's command that makes a tenant's first owner, and the way to it on the machine."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from mqservice.accounts.models import AuditEntry, Member, Namespace, User
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.operator_commands import run_command
from tests.people import People

PASSWORD = "a long and winding phrase"


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ_OWNER_PASSWORD", PASSWORD)


def create(*arguments: str) -> dict[str, object]:
    out = io.StringIO()
    call_command("create_owner", *arguments, stdout=out)
    facts: dict[str, object] = json.loads(out.getvalue())
    return facts


def test_first_owner_comes_with_tenant_and_namespace(db: None) -> None:
    facts = create("dora", "--tenant=dora-co", "--email=dora@x.example")
    assert facts == {"username": "dora", "tenant": "dora-co", "is_new_user": True}
    user = User.objects.get()
    assert user.check_password(PASSWORD)
    assert (Member.objects.get().role, Namespace.objects.get().name) == ("owner", "dora-co")
    assert {row.actor for row in AuditEntry.objects.all()} == {"service"}


def test_tenant_that_lost_its_owner_gets_one_and_passwords_stay(people: People) -> None:
    before = people.bob.password
    assert not create("bob", "--tenant=acme")["is_new_user"]
    create("bob", "--tenant=acme")
    people.bob.refresh_from_db()
    assert people.bob.password == before
    assert Member.objects.get(user=people.bob).role == "owner"
    assert AuditEntry.objects.filter(action="member.update").count() == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("do ra", "--tenant=x"), "valid username"),
        (("dora", "--tenant=a b"), "a-z"),
        (("alice", "--tenant=new"), "belongs to a tenant"),
    ],
)
def test_what_cannot_be_says_why_and_leaves_nothing(
    arguments: tuple[str, ...], why: str, people: People
) -> None:
    with pytest.raises(CommandError, match=why):
        create(*arguments)
    assert not User.objects.filter(username__contains="do").exists()


def test_bad_password_is_refused(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ_OWNER_PASSWORD", "short")
    with pytest.raises(CommandError, match="too short"):
        create("dora", "--tenant=x")


def test_directory_of_no_service_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no service was started"):
        run_command({}, tmp_path, ["check"])
