"""Issues over REST: lists, one issue, what is done to it, who may, and what others do not see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry, Namespace, Role
from mqservice.accounts.services import create_api_key
from mqservice.issues.models import Issue, IssueBook
from mqservice.issues.recording import record_tallies
from mqservice.issues.tallies import Cause, Tally
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.timestamps import rfc3339
from tests.people import People

NOW_MS = 1_900_000_000_000
ROOT = "/v1/ns/acme/issues"
Json = dict[str, Any]  # Any: documents as the API writes them


def letters(
    namespace: Namespace, reason: str, *, group: str = "billing", topic: str = "orders",
    count: int = 1, at_ms: int = NOW_MS,
) -> Issue:  # fmt: skip
    one = Tally(
        count=count, first_ms=at_ms, last_ms=at_ms, sample=f"{reason} of 7",
        messages=[("AB12", at_ms)],
    )  # fmt: skip
    one.hours[at_ms // HOUR_MS] = count
    record_tallies(namespace, group, {Cause(topic, reason): one}, at_ms)
    return Issue.objects.get(namespace=namespace, group_name=group, topic=topic, reason=reason)


def get(client: Client, path: str = "", **query: str) -> Json:
    answer = client.get(f"{ROOT}{path}", query)
    assert answer.status_code == 200, answer.content
    return answer.json()  # type: ignore[no-any-return]  # untyped in Django


def reasons(found: Json) -> list[str]:
    return [issue["reason"] for issue in found["issues"]]


def client_of(key: str) -> Client:
    return Client(headers={"authorization": f"Bearer {key}"})


def test_one_issue_says_what_failed_since_when_and_how_often(acme: Client, people: People) -> None:
    issue = letters(people.acme, "no stock of <text>", count=3)
    listed = get(acme)
    assert (listed["open"], listed["others"], listed["unseen"]) == (1, 0, 0)
    assert (listed["next"], listed["resolve_after"]) == (None, "7d")
    found = get(acme, f"/{issue.public_id}")
    at = rfc3339(NOW_MS)
    assert listed["issues"] == [{name: found[name] for name in listed["issues"][0]}]
    assert found == {
        "id": issue.public_id, "namespace": "acme", "kind": "dead_letter", "group": "billing",
        "topic": "orders", "reason": "no stock of <text>", "state": "open", "count": 3,
        "first_seen": at, "last_seen": at, "reopened": 0, "changed_at": at, "changed_by": None,
        "sample": "no stock of <text> of 7", "messages": [{"id": "AB12", "at": at}],
        "hours": [{"at": rfc3339(NOW_MS - NOW_MS % HOUR_MS), "count": 3}],
        "history": [{"number": 1, "state": "open", "why": "first", "at": at, "by": None}],
    }  # fmt: skip


def test_the_list_is_filtered_and_paged_the_last_seen_first(acme: Client, people: People) -> None:
    for index, reason in enumerate("abcd"):
        letters(people.acme, reason, group=f"g{index % 2}", at_ms=NOW_MS + index)
    letters(people.acme, "e", topic="payments", at_ms=NOW_MS)
    letters(people.rival, "foreign")
    Issue.objects.filter(reason="b").update(state="ignored")
    assert reasons(get(acme)) == ["d", "c", "b", "e", "a"]
    assert reasons(get(acme, group="g1")) == ["d", "b"]
    assert reasons(get(acme, group="g1", state="open")) == ["d"]
    assert reasons(get(acme, topic="payments")) == ["e"]
    first = get(acme, limit="2")
    assert reasons(first) == ["d", "c"]
    second = get(acme, limit="3", before=first["next"])
    assert reasons(second) == ["b", "e", "a"]
    assert get(acme, before=second["next"])["issues"] == []


@pytest.mark.parametrize(
    ("query", "status"),
    [("state=broken", 400), ("limit=0", 400), ("limit=101", 400), ("before=iss_no", 404)],
)
def test_a_list_that_cannot_be_is_refused(acme: Client, query: str, status: int) -> None:
    assert acme.get(f"{ROOT}?{query}").status_code == status


def test_what_is_done_to_an_issue_is_in_its_history_and_in_the_audit(
    acme: Client, people: People
) -> None:
    issue = letters(people.acme, "a")
    path = f"{ROOT}/{issue.public_id}"
    states = {}
    for verb in ("acknowledge", "ignore", "resolve", "resolve", "reopen"):
        answer = acme.post(f"{path}:{verb}")
        assert answer.status_code == 200, answer.content
        states[verb] = answer.json()["state"]
        assert answer.json()["changed_by"].startswith("key:")
    assert states == {
        "acknowledge": "acknowledged", "ignore": "ignored", "resolve": "resolved", "reopen": "open",
    }  # fmt: skip
    history = get(acme, f"/{issue.public_id}")["history"]
    assert [each["state"] for each in history] == [
        "open", "resolved", "ignored", "acknowledged", "open",
    ]  # fmt: skip
    assert [each["why"] for each in history] == [*["by_hand"] * 4, "first"]
    entries = AuditEntry.objects.filter(target=f"issues/{issue.public_id}").order_by("id")
    assert [entry.action for entry in entries] == [
        "issue.acknowledge", "issue.ignore", "issue.resolve", "issue.reopen",
    ]  # fmt: skip
    assert entries[0].before == {"state": "open"}
    assert entries[0].after == {"state": "acknowledged"}
    assert IssueBook.objects.get(namespace=people.acme).opening_count == 2


def test_another_tenants_issue_is_as_one_that_does_not_exist(acme: Client, people: People) -> None:
    issue = letters(people.rival, "a")
    for path in (f"{ROOT}/{issue.public_id}", f"/v1/ns/rival/issues/{issue.public_id}"):
        assert acme.get(path).status_code == 404
        assert acme.post(f"{path}:resolve").status_code == 404
    assert acme.get(ROOT, {"before": issue.public_id}).status_code == 404
    issue.refresh_from_db()
    assert issue.state == "open"


def test_who_may_not_read_messages_sees_no_words_of_their_failures(people: People) -> None:
    issue = letters(people.acme, "a")
    viewer = client_of(people.acme_viewer_key)
    [listed] = get(viewer)["issues"]
    found = get(viewer, f"/{issue.public_id}")
    assert (listed["reason"], listed["count"]) == (None, 1)
    assert (found["reason"], found["sample"], found["messages"]) == (None, None, None)
    assert viewer.post(f"{ROOT}/{issue.public_id}:resolve").status_code == 403


def test_a_key_for_some_groups_reads_and_changes_issues_of_those(people: People) -> None:
    mine, other = letters(people.acme, "a"), letters(people.acme, "b", group="other")
    scopes = ["consume:billing", "manage:billing"]
    key = create_api_key(people.acme.tenant, name="n", scopes=scopes, role=Role.OWNER)[1]
    narrow = client_of(key)
    assert {each["group"]: each["reason"] for each in get(narrow)["issues"]} == {
        "billing": "a", "other": None,
    }  # fmt: skip
    assert narrow.post(f"{ROOT}/{mine.public_id}:resolve").status_code == 200
    assert narrow.post(f"{ROOT}/{other.public_id}:resolve").status_code == 403


def put_settings(client: Client, body: object) -> Any:  # Any: the client's response
    return client.put(ROOT, data=msgspec.json.encode(body), content_type="application/json")


def test_after_how_long_an_issue_is_resolved_can_be_set(acme: Client, people: People) -> None:
    assert put_settings(acme, {"resolve_after": "2d"}).json() == {"resolve_after": "2d"}
    assert IssueBook.objects.get(namespace=people.acme).quiet_ms == 2 * DAY_MS
    assert put_settings(acme, {"resolve_after": None}).json() == {"resolve_after": None}
    assert get(acme)["resolve_after"] is None
    entries = AuditEntry.objects.filter(action="issues.settings").order_by("id")
    assert [entry.after for entry in entries] == [
        {"resolve_after_ms": 2 * DAY_MS}, {"resolve_after_ms": 0},
    ]  # fmt: skip


@pytest.mark.parametrize("body", [{}, {"resolve_after": "59m"}, {"resolve_after": "91d"},
    {"resolve_after": "0s"}, {"resolve_after": "soon"}, {"resolve_after": 5},
    {"resolve_after": "2d", "more": 1}])  # fmt: skip
def test_a_quiet_time_that_cannot_be_is_refused(acme: Client, body: Json) -> None:
    answer = put_settings(acme, body)
    assert answer.status_code == 400, answer.content
    assert "/" in answer.json()["errors"][0]["pointer"]
