"""The audit: what it holds of a change, how it is searched, and that it only grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.test import Client

from mqservice.accounts.audit import record
from mqservice.accounts.models import AuditEntry, Role
from mqservice.accounts.services import create_api_key
from mqservice.lib.api_keys import parse_api_key
from tests.people import People

Api = Callable[[str], Client]
JSON = "application/json"


@pytest.fixture
def entries(people: People) -> None:
    """Six of acme's namespace, one of all of acme, one of rival."""
    for index in range(6):
        target = f"topics/t{index % 3}"
        action = "topic.put" if index % 2 else "topic.delete"
        record("user:alice" if index < 3 else None, people.acme, action, target, {"n": index})
    record(None, people.acme.tenant, "member.join", "members/x", {"n": 6})
    record(None, people.rival, "topic.put", "topics/secret", {"n": 7})


def numbers(answer: Any) -> list[int]:  # Any: the test client's response
    assert answer.status_code == 200, answer.content
    return [each["details"]["n"] for each in answer.json()["entries"]]


def test_an_entry_says_who_from_where_and_what_became_different(
    engine: str, people: People, api: Api
) -> None:
    client = api(people.acme_key)
    client.put("/v1/ns/acme/topics/audited", data={"queues": 2}, content_type=JSON)
    answer = client.put(
        "/v1/ns/acme/topics/audited",
        data={"queues": 3},
        content_type=JSON,
        headers={"x-request-id": "given-request-id"},
        REMOTE_ADDR="192.0.2.7",
        HTTP_USER_AGENT="story/1 \x00" + "x" * 300,
    )
    assert answer.status_code == 200
    found = api(people.acme_admin_key).get("/v1/audit?target=topics/audited").json()["entries"]
    key = parse_api_key(people.acme_key)
    assert key is not None
    assert (found[1]["before"], found[1]["after"]["queue_count"]) == (None, 2)
    assert found[0].pop("at")
    agent = found[0].pop("user_agent")
    assert (agent[:10], len(agent)) == ("story/1 ?x", 200)
    assert found[0] == {
        "actor": f"key:{key.public_id}", "address": "192.0.2.7", "action": "topic.put",
        "namespace": "acme", "target": "topics/audited", "outcome": "done",
        "before": {"queue_count": 2}, "after": {"queue_count": 3}, "details": {},
        "request_id": "given-request-id",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [6, 5, 4, 3, 2, 1, 0]),
        ("actor=user:alice", [2, 1, 0]),
        ("action=topic.put", [5, 3, 1]),
        ("target=topics/t1", [4, 1]),
        ("target=topics/*", [5, 4, 3, 2, 1, 0]),
        ("target=topics/t1&actor=service", [4]),
        ("namespace=acme", [5, 4, 3, 2, 1, 0]),
        ("namespace=rival", []),
        ("target=topics/secret", []),
        ("from=2020-01-01T00:00:00Z&to=2021-01-01T00:00:00Z", []),
        ("from=2020-01-01T00:00:00Z&to=9999-01-01T00:00:00Z&limit=2", [6, 5]),
    ],
)
def test_entries_are_found_newest_first(
    admin: Client, entries: None, query: str, expected: list[int]
) -> None:
    assert numbers(admin.get(f"/v1/audit?{query}")) == expected


def test_pages_continue_by_a_cursor_of_the_question(
    admin: Client, entries: None, people: People, api: Api
) -> None:
    seen, cursor = [], ""
    while True:
        answer = admin.get(f"/v1/audit?target=topics/*&limit=4{cursor}")
        seen += numbers(answer)
        token = answer.json()["next_cursor"]
        if token is None:
            break
        cursor, kept = f"&cursor={token}", token
    assert seen == [5, 4, 3, 2, 1, 0]
    flipped = ("A" if kept[0] != "A" else "B") + kept[1:]
    for query in (
        f"target=topics/t1&cursor={kept}", f"cursor={kept}", f"target=topics/*&cursor={flipped}",
        "target=topics/*&cursor=x", "target=topics/*&cursor=" + "A" * 100,
        "target=topics/*&cursor=%C3%A4", "target=topics/*&cursor=",
    ):  # fmt: skip
        refused = admin.get(f"/v1/audit?{query}")
        assert (refused.status_code, refused.json()["code"]) == (400, "CURSOR_INVALID"), query
    stranger = api(people.rival_owner_key).get(f"/v1/audit?target=topics/*&cursor={kept}")
    assert stranger.json()["code"] == "CURSOR_INVALID"


@pytest.mark.parametrize("query", ["from=soon", "to=2026", "limit=0", "limit=101", "actor=%00"])
def test_a_bad_question_is_refused(admin: Client, query: str) -> None:
    assert admin.get(f"/v1/audit?{query}").json()["code"] == "BAD_REQUEST"


def test_who_is_bound_to_a_namespace_sees_its_entries_only(
    entries: None, people: People, api: Api
) -> None:
    _, bound = create_api_key(
        people.acme.tenant, name="b", scopes=["manage"], role=Role.ADMIN, namespace=people.acme
    )
    assert numbers(api(bound).get("/v1/audit")) == [5, 4, 3, 2, 1, 0]
    assert numbers(api(people.rival_owner_key).get("/v1/audit")) == [7]
    assert api(people.acme_key).get("/v1/audit").status_code == 403


@pytest.mark.parametrize("statement", ["update", "delete"])
def test_the_database_lets_nobody_change_an_entry(entries: None, statement: str) -> None:
    rows = AuditEntry.objects.all()
    with pytest.raises(DatabaseError, match="only ever added"), transaction.atomic():
        if statement == "update":
            rows.update(actor="nobody")
        else:
            rows._raw_delete(rows.db)
    assert rows.count() == 8
