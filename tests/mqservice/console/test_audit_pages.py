"""The audit's page: filters in the address, pages, what a change was, CSV without formulas."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.test import Client

from mqservice.accounts.audit import record
from mqservice.accounts.models import ApiKey
from tests.people import People

AUDIT = "/console/acme/audit"
TARGET = re.compile(r'title="(topics/[^"]*|=HYPER[^"]*)"')


@pytest.fixture
def entries(people: People) -> None:
    for index in range(60):
        action = "topic.put" if index % 2 else "topic.delete"
        actor = "user:alice" if index < 55 else "key:abc"
        after = {"queue_count": index}
        record(actor, people.acme, action, f"topics/t{index:02}", before=None, after=after)
    record(None, people.rival, "topic.put", "topics/secret")


def targets(client: Client, query: str = "") -> list[str]:
    answer = client.get(AUDIT + query)
    assert answer.status_code == 200
    return TARGET.findall(answer.content.decode())


def test_audit_is_paged_by_cursor_and_never_shows_another_tenant(
    entries: None, alice: Client
) -> None:
    query = "?target=topics/*"
    assert targets(alice, query) == [f"topics/t{index:02}" for index in range(59, 9, -1)]
    page = alice.get(AUDIT + query).content.decode()
    cursor = re.search(r"cursor=([^&\"]+)", page)
    assert cursor is not None
    rest = targets(alice, f"{query}&cursor={cursor[1]}")
    assert rest == [f"topics/t{index:02}" for index in range(9, -1, -1)]
    assert "secret" not in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?actor=key:abc", 5),
        ("?action=topic.put&actor=user:alice", 27),
        ("?target=topics/t01", 1),
        ("?target=topics/t0*", 10),
        ("?namespace=rival", 0),
        ("?from=2020-01-01T00:00&to=2021-01-01T00:00", 0),
        ("?from=2020-01-01T00:00&target=topics/t0*", 10),
    ],
)
def test_filters_are_in_the_address(entries: None, alice: Client, query: str, count: int) -> None:
    assert len(targets(alice, query)) == count


@pytest.mark.parametrize(
    "query",
    [
        "?from=soon",
        "?to=99999",
        "?cursor=forged",
        "?from=0000",
        "?to=9999-12-31T23:59:59-14:00",
    ],
)
def test_what_cannot_be_read_is_reported(entries: None, alice: Client, query: str) -> None:
    answer = alice.get(AUDIT + query)
    assert answer.status_code == 400
    assert b'role="alert"' in answer.content


def test_change_shows_both_sides_who_asked_and_from_where(people: People, alice: Client) -> None:
    before = {"queue_count": 2, "gone": "<x>"}
    after = {"queue_count": 3, "new": ["a"], "long": 300 * "y"}
    record("user:alice", people.acme, "topic.put", "topics/o", before=before, after=after)
    alice.post(
        "/console/acme/members/bob/role",
        {"role": "developer"},
        REMOTE_ADDR="192.0.2.9",
        HTTP_USER_AGENT="story <b>/1",
    )
    page = alice.get(AUDIT).content.decode()
    assert "<del>2</del>" in page
    assert "<ins>3</ins>" in page
    assert "<del>&lt;x&gt;</del>" in page
    assert '</del> <span aria-hidden="true">→</span> <span class="soft">removed</span>' in page
    assert f"<ins>{199 * 'y'}…</ins>" in page
    assert "192.0.2.9" in page
    assert "story &lt;b&gt;/1" in page


def test_csv_has_what_the_filters_find_and_no_formula(
    entries: None, people: People, alice: Client
) -> None:
    nasty = ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", " =1", "\t=1", 'quo"te, comma')
    for text in nasty:
        record(text, people.acme, "topic.put", text)
    answer = alice.get("/console/acme/audit.csv?action=topic.put")
    assert answer["Content-Disposition"] == 'attachment; filename="audit-acme.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(rows) == 30 + len(nasty)
    assert {row["action"] for row in rows} == {"topic.put"}
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]
    assert rows[0]["target"] == 'quo"te, comma'
    assert alice.get("/console/acme/audit.csv?from=soon").status_code == 400


@pytest.mark.parametrize(
    ("action", "target", "before", "said"),
    [
        ("group.put", "groups/billing", {"lease_ms": 1}, "changed the group billing"),
        ("group.put", "groups/billing", None, "created the group billing"),
        ("topic.purge", "topics/orders", None, "purged the topic orders"),
        ("group.seek", "groups/billing", None, "reset the offsets of the group billing"),
        ("key.revoke", "keys/{key}", None, "revoked the API key load generator"),
    ],
)
def test_entries_are_told_in_sentences_with_the_names_of_keys(
    people: People,
    alice: Client,
    action: str,
    target: str,
    before: dict[str, object] | None,
    said: str,
) -> None:
    ApiKey.objects.filter(tenant=people.acme.tenant).update(name="load generator")
    key = ApiKey.objects.filter(tenant=people.acme.tenant).first()
    assert key is not None
    target = target.format(key=key.public_id)
    record(f"key:{key.public_id}", people.acme, action, target, before=before)
    record("user:alice", people.acme, action, target, before=before)
    page = alice.get(AUDIT).content.decode()
    assert f"load generator {said}<" in page
    assert f"alice {said}<" in page


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("user.login", "alice signed in"),
        ("user.login_fail", "somebody failed to sign in as alice"),
        ("member.join", "alice joined"),
    ],
)
def test_what_people_do_with_their_own_accounts_is_told_in_sentences(
    people: People, alice: Client, action: str, said: str
) -> None:
    record("user:alice", people.acme, action, "users/alice")
    assert f">{said}<" in alice.get(AUDIT).content.decode()


def test_entry_without_a_sentence_is_shown_as_it_is(people: People, alice: Client) -> None:
    record(None, people.acme, "quotas.put", "tenant", before=None, after={"x": 1})
    page = alice.get(AUDIT).content.decode()
    assert ">quotas.put</a>" in page
    assert ">the service</a>" in page
