"""What an answer costs does not tell who has an account: hashes, statements and mails counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import get_hasher
from django.core import mail
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mqservice.accounts.models import AuditEntry, User
from tests.mqservice.people.visitors import address_of, last_link, sign_in, sign_up
from tests.people import People

VERIFIED: Final = "alice@x.example"
UNVERIFIED: Final = "dora@x.example"
UNKNOWN: Final = "nobody@x.example"
RESET: Final = "/account/password/reset/"
_TABLE: Final = re.compile(r'^(SELECT|INSERT|UPDATE|DELETE).*?(?:FROM|INTO|UPDATE) "(\w+)"', re.S)


class Work:
    """Hashes made, statements by verb and table, and mails, of one request."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def of(self, request: Callable[[], object]) -> tuple[int, Counter[tuple[str, str]], int]:
        hasher = type(get_hasher())
        hashed: list[str] = []
        encode = hasher.encode

        def counted(*arguments: Any, **named: Any) -> str:  # Any: as each hasher has it
            hashed.append("a hash")
            return str(encode(*arguments, **named))

        cache.clear()  # of counts of attempts
        mail.outbox.clear()
        with self._patch.context() as patched, CaptureQueriesContext(connection) as queries:
            patched.setattr(hasher, "encode", counted)
            request()
        statements = Counter(
            (found[1], found[2])
            for each in queries.captured_queries
            if (found := _TABLE.match(_without_cursor(each["sql"])))
        )
        return len(hashed), statements, len(mail.outbox)


def _without_cursor(sql: str) -> str:
    return re.sub(r"^DECLARE .*? CURSOR FOR ", "", sql)


@pytest.fixture
def work(people: People, monkeypatch: pytest.MonkeyPatch) -> Work:
    """Alice has verified her address, Dora has not."""
    address_of(people.alice, VERIFIED)
    sign_up(Client(), UNVERIFIED)
    return Work(monkeypatch)


@pytest.mark.parametrize("known", [VERIFIED, UNVERIFIED])
def test_sign_up_of_a_known_address_costs_what_a_new_one_does(known: str, work: Work) -> None:
    users = User.objects.count()
    for_known = work.of(lambda: sign_up(Client(), known))
    assert User.objects.count() == users
    for_new = work.of(lambda: sign_up(Client(), UNKNOWN))
    assert User.objects.count() == users + 1
    assert for_known == for_new
    assert (for_new[0], for_new[2]) == (1, 1), "one hash, one mail"
    assert for_new[1]["INSERT", "accounts_user"] == 1


def test_what_a_known_address_leaves_behind_is_its_mail_alone(work: Work) -> None:
    before = list(User.objects.order_by("pk").values())
    sign_up(Client(), VERIFIED)
    assert list(User.objects.order_by("pk").values()) == before
    assert mail.outbox[-1].to == [VERIFIED]
    assert "/account/confirm-email/" not in mail.outbox[-1].body
    assert "nobody.invalid" not in mail.outbox[-1].body


def test_what_was_written_for_the_time_it_takes_is_not_committed(
    transactional_db: None, people: People
) -> None:
    address_of(people.alice, VERIFIED)
    before = User.objects.count(), EmailAddress.objects.count(), AuditEntry.objects.count()
    sign_up(Client(), VERIFIED)
    Client().post(RESET, {"email": UNKNOWN})
    sign_in(Client(), UNKNOWN, "not the password")
    after = User.objects.count(), EmailAddress.objects.count(), AuditEntry.objects.count()
    assert after == before


@pytest.mark.parametrize("known", [VERIFIED, UNVERIFIED])
def test_a_forgotten_password_costs_the_same_for_whom_nobody_knows(known: str, work: Work) -> None:
    for_known = work.of(lambda: Client().post(RESET, {"email": known}))
    for_unknown = work.of(lambda: Client().post(RESET, {"email": UNKNOWN}))
    assert for_known == for_unknown
    assert for_unknown[2] == 1
    assert not User.objects.filter(email=UNKNOWN).exists()


@pytest.mark.parametrize(
    ("known", "unknown"),
    [("alice", "nobody"), (VERIFIED, UNKNOWN), (UNVERIFIED, UNKNOWN), ("dora", "nobody")],
)
def test_a_wrong_password_costs_the_same_whoever_is_here(
    known: str, unknown: str, work: Work
) -> None:
    for_known = work.of(lambda: sign_in(Client(), known, "not the password"))
    for_unknown = work.of(lambda: sign_in(Client(), unknown, "not the password"))
    assert for_known == for_unknown
    assert for_known[0] == 1, "one hash, by name or address"


def test_only_failures_of_members_are_audited(work: Work) -> None:
    for name in (VERIFIED, UNVERIFIED, UNKNOWN):
        sign_in(Client(), name, "not the password")
    assert list(AuditEntry.objects.values_list("action", "actor")) == [
        ("user.login_fail", "user:alice")
    ]


def test_right_passwords_sign_in_by_name_and_by_address(work: Work) -> None:
    for name in ("alice", "ALICE", VERIFIED, VERIFIED.upper()):
        client = Client()
        cache.clear()
        assert sign_in(client, name).status_code == 302
        assert client.get("/account/").status_code == 200


def test_a_reset_link_still_goes_to_who_verified_the_address(work: Work) -> None:
    claimer = User.objects.create_user("eve", email=VERIFIED)
    Client().post(RESET, {"email": VERIFIED.upper()})
    assert len(mail.outbox) >= 1
    assert last_link().startswith(f"{RESET}key/")
    assert "alice" in mail.outbox[-1].body
    assert claimer.username not in mail.outbox[-1].body
