"""Redrive, purge and tasks over REST, and each way to be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry
from mqservice.groups.models import ConsumerGroup
from mqservice.tasks import limits, queries, services
from mqservice.tasks.models import Task, TaskState
from mqservice.tasks.steps import take_turn
from mqservice.topics.models import Topic
from tests.mqservice.issues.failing import fail
from tests.mqservice.tasks.desk import Desk, numbered
from tests.people import People

Api = Callable[[str], Client]
Json = dict[str, Any]  # Any: documents as the API writes them


@pytest.fixture
def group(people: People) -> str:
    """A group in the database alone, for what is refused before the engine is asked."""
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    return "/v1/ns/acme/groups/billing"


def post(client: Client, path: str, document: object = None) -> Any:  # Any: Django's response
    return client.post(path, data=document or {}, content_type="application/json")


def ordered(client: Client, desk: Desk, verb: str = "redrive", **document: object) -> Json:
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:{verb}"
    response = post(client, path, document)
    assert response.status_code == 202, response.content
    task: Json = response.json()
    assert response["Location"] == f"/v1/ns/acme/tasks/{task['id']}"
    return task


def finished(client: Client, desk: Desk, task: Json) -> Json:
    row = Task.objects.get(public_id=task["id"])
    take_turn(row.public_id, desk.clock)
    found: Json = client.get(f"/v1/ns/-/tasks/{task['id']}").json()
    return found


def test_redrive_is_a_task_that_can_be_followed(acme: Client, desk: Desk, people: People) -> None:
    desk.give_up(*numbered(3))
    task = ordered(acme, desk, all=True, rate=100)
    assert task["id"].startswith("task_")
    assert (task["kind"], task["state"], task["group"]) == ("redrive", "pending", desk.group.name)
    assert (task["all"], task["ids"], task["filter"], task["target"]) == (True, None, None, None)
    assert (task["total"], task["looked_at"], task["to_look_at"]) == (None, 0, 3)
    assert (task["rate"], task["started_at"], task["eta_ms"]) == (100, None, None)
    key_id = task["created_by"].removeprefix("key:")
    assert key_id in people.acme_key

    done = finished(acme, desk, task)
    assert (done["state"], done["moved"], done["skipped"], done["failed"]) == ("done", 3, 0, 0)
    assert done["created_at"] <= done["started_at"] <= done["finished_at"]
    assert desk.taken() == numbered(3)


def test_purge_of_ids_lists_the_one_that_is_unknown(acme: Client, desk: Desk) -> None:
    first, second = desk.give_up(*numbered(2))
    task = ordered(acme, desk, "purge", ids=[second, "absent1", second, "absent2"])
    assert (task["kind"], task["ids"], task["total"]) == ("purge", 3, 3)
    done = finished(acme, desk, task)
    assert (done["state"], done["moved"], done["failed"]) == ("done", 1, 2)
    assert (desk.dead(), desk.taken()) == ([b"0"], [])

    path = f"/v1/ns/acme/tasks/{task['id']}/failures"
    page = acme.get(path, {"limit": 1}).json()
    assert page["failures"] == [{"id": "absent1", "offset": None, "outcome": "not_found"}]
    last = acme.get(path, {"after": page["next"]}).json()
    assert [failure["id"] for failure in last["failures"]] == ["absent2"]
    assert (last["next"], last["unlisted"]) == (None, 0)
    assert first


def test_filter_is_shown_as_it_is_applied(acme: Client, desk: Desk) -> None:
    desk.give_up(*numbered(2), tag="a", keys=["k"])
    condition = {"key": "k", "tag": "a || b", "from": "2020-01-01T00:00:00Z", "to": None}
    task = ordered(acme, desk, filter=condition)
    assert task["filter"] == {
        "key": "k",
        "tags": ["a", "b"],
        "from": "2020-01-01T00:00:00.000Z",
        "to": None,
        "reason": None,
    }
    assert finished(acme, desk, task)["moved"] == 2


def test_letters_of_one_cause_are_moved_and_no_others(acme: Client, desk: Desk) -> None:
    fail(desk, "order 1 late", "no stock", "order 22 late", "")
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:redrive"
    condition = {"reason": "order 7 late"}
    assert post(acme, path, {"filter": condition, "dry_run": True}).json()["count"] == 2
    task = ordered(acme, desk, filter=condition)
    assert task["filter"]["reason"] == "order <n> late"
    assert finished(acme, desk, task)["moved"] == 2
    assert len(desk.dead()) == 2
    none = ordered(acme, desk, "purge", filter={"reason": "<none>"})
    assert none["filter"]["reason"] == "<none>"
    assert finished(acme, desk, none)["moved"] == 1
    assert len(desk.dead()) == 1


def test_dry_run_counts_by_topic_and_changes_nothing(acme: Client, desk: Desk) -> None:
    ids = desk.give_up(*numbered(3))
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:redrive"
    response = post(acme, path, {"all": True, "dry_run": True})
    assert response.status_code == 200
    assert response.json() == {
        "dry_run": True,
        "count": 3,
        "is_complete": True,
        "topics": [{"topic": desk.topic.name, "count": 3, "exists": True}],
        "not_found": [],
    }
    Topic.objects.filter(pk=desk.topic.pk).delete()
    gone = post(acme, path, {"ids": [ids[0], "absent"], "dry_run": True}).json()
    assert gone["topics"] == [{"topic": desk.topic.name, "count": 1, "exists": False}]
    assert gone["not_found"] == ["absent"]

    other = desk.make_topic(f"{desk.topic.name}-other")
    there = post(acme, path, {"all": True, "target": other.name, "dry_run": True}).json()
    assert there["topics"] == [{"topic": other.name, "count": 3, "exists": True}]
    assert len(desk.dead()) == 3
    assert not Task.objects.exists()


def test_dry_run_says_when_it_stopped_counting(
    acme: Client, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "COUNTED_MAX", 4)
    monkeypatch.setattr(queries, "SCANNED_MAX", 2)
    desk.give_up(*numbered(5))
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:purge"
    counted = post(acme, path, {"all": True, "dry_run": True}).json()
    assert (counted["count"], counted["is_complete"]) == (4, False)


def test_dry_run_before_anything_was_given_up_counts_nothing(acme: Client, desk: Desk) -> None:
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:redrive"
    counted = post(acme, path, {"all": True, "dry_run": True}).json()
    assert (counted["count"], counted["is_complete"], counted["topics"]) == (0, True, [])


def test_cancel_ends_a_task_once_and_not_one_that_is_done(acme: Client, desk: Desk) -> None:
    desk.give_up(*numbered(3))
    task, done = ordered(acme, desk, all=True), ordered(acme, desk, ids=["absent"])
    for _ in range(2):
        response = post(acme, f"/v1/ns/acme/tasks/{task['id']}:cancel")
        assert (response.status_code, response.json()["state"]) == (200, "cancelled")
    assert finished(acme, desk, task)["state"] == "cancelled"
    assert len(desk.dead()) == 3

    assert finished(acme, desk, done)["state"] == "done"
    response = post(acme, f"/v1/ns/acme/tasks/{done['id']}:cancel")
    assert (response.status_code, response.json()["code"]) == (409, "CONFLICT")


def test_what_was_ordered_and_cancelled_is_audited(acme: Client, desk: Desk) -> None:
    task = ordered(acme, desk, "purge", ids=["a"], rate=9)["id"]
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:redrive"
    post(acme, path, {"all": True, "dry_run": True})
    for _ in range(2):
        post(acme, f"/v1/ns/acme/tasks/{task}:cancel")
    purge, cancel = AuditEntry.objects.order_by("id")
    assert (purge.action, purge.target) == ("dead_letters.purge", f"groups/{desk.group.name}")
    assert purge.details == {"task": task, "selection": {"ids": ["a"]}, "target": "", "rate": 9}
    assert (cancel.action, cancel.target) == ("task.cancel", f"tasks/{task}")
    assert cancel.details == {"moved": 0}


def test_tasks_have_pages_newest_first(acme: Client, desk: Desk) -> None:
    made = [ordered(acme, desk, all=True)["id"] for _ in range(5)]
    shown: list[str] = []
    query: dict[str, str | int] = {"limit": 2}
    while True:
        page = acme.get("/v1/ns/acme/tasks", query).json()
        shown += [task["id"] for task in page["tasks"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]
    assert shown == made[::-1]


def test_one_active_task_too_many_is_refused_with_what_to_do(
    acme: Client, desk: Desk, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "ACTIVE_TASKS_MAX", 2)
    first = ordered(acme, desk, all=True)
    ordered(acme, desk, all=True)
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:redrive"
    response = post(acme, path, {"all": True})
    assert (response.status_code, response.json()["code"]) == (403, "QUOTA_EXCEEDED")
    assert response.json()["retryable"] is True
    assert "cancel one" in response.json()["detail"]
    post(acme, f"/v1/ns/acme/tasks/{first['id']}:cancel")
    assert post(acme, path, {"all": True}).status_code == 202


def test_oldest_of_too_many_ended_tasks_are_forgotten(
    acme: Client, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "RETAINED_TASKS_MAX", 3)
    made = []
    for _ in range(6):
        made.append(ordered(acme, desk, all=True)["id"])
        Task.objects.update(state=TaskState.DONE)
    kept = Task.objects.order_by("id").values_list("public_id", flat=True)
    assert list(kept) == made[3:]


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({}, ""),
        ({"all": True, "ids": ["x"]}, ""),
        ({"all": False}, "/all"),
        ({"ids": []}, "/ids"),
        ({"ids": [""]}, "/ids/0"),
        ({"ids": ["x" * 256]}, "/ids/0"),
        ({"ids": ["a\0"]}, "/ids/0"),
        ({"ids": [f"{number}" for number in range(limits.IDS_MAX + 1)]}, "/ids"),
        ({"filter": {}}, "/filter"),
        ({"filter": {"cause": "x"}}, "/filter/cause"),
        ({"filter": {"reason": " "}}, "/filter/reason"),
        ({"filter": {"reason": "\u0001"}}, "/filter/reason"),
        ({"filter": {"reason": "x" * 1_001}}, "/filter/reason"),
        ({"filter": {"key": ""}}, "/filter/key"),
        ({"filter": {"tag": "a |"}}, "/filter/tag"),
        ({"filter": {"from": "yesterday"}}, "/filter/from"),
        (
            {"filter": {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}},
            "/filter/to",
        ),
        ({"all": True, "rate": 0}, "/rate"),
        ({"all": True, "rate": 5_001}, "/rate"),
        ({"all": True, "rate": "5"}, "/rate"),
        ({"all": True, "dry_run": "yes"}, "/dry_run"),
        ({"all": True, "keep": True}, "/keep"),
    ],
)
@pytest.mark.parametrize("verb", ["redrive", "purge"])
def test_order_that_makes_no_sense_is_refused_with_its_place(
    acme: Client, group: str, verb: str, document: Json, pointer: str
) -> None:
    response = post(acme, f"{group}/dlq:{verb}", document)
    assert response.status_code == 400, response.content
    assert pointer in [item["pointer"] for item in response.json()["errors"]]
    assert not Task.objects.exists()


def test_rates_are_those_of_the_settings(acme: Client, desk: Desk, settings: Settings) -> None:
    settings.MQ_REDRIVE_RATE_MAX = 70
    settings.MQ_REDRIVE_RATE_DEFAULT = 7
    assert ordered(acme, desk, all=True)["rate"] == 7
    assert ordered(acme, desk, all=True, rate=70)["rate"] == 70
    assert ordered(acme, desk, "purge", all=True)["rate"] == 70
    path = f"/v1/ns/acme/groups/{desk.group.name}/dlq:redrive"
    assert post(acme, path, {"all": True, "rate": 71}).status_code == 400


def test_purge_takes_no_target_and_a_redrive_none_that_is_absent(
    acme: Client, group: str, people: People
) -> None:
    Topic.objects.create(namespace=people.rival, name="theirs")
    assert post(acme, f"{group}/dlq:purge", {"all": True, "target": "x"}).status_code == 400
    for name in ("nowhere", "theirs"):
        response = post(acme, f"{group}/dlq:redrive", {"all": True, "target": name})
        assert (response.status_code, response.json()["code"]) == (404, "TOPIC_NOT_FOUND")


def test_engine_that_is_unavailable_refuses_the_order_and_makes_no_task(
    acme: Client, group: str
) -> None:
    for document in ({"all": True}, {"all": True, "dry_run": True}):
        response = post(acme, f"{group}/dlq:redrive", document)
        assert (response.status_code, response.json()["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert not Task.objects.exists()


def test_key_without_manage_may_look_and_no_more(
    people: People, api: Api, acme: Client, desk: Desk
) -> None:
    task = ordered(acme, desk, all=True)
    reader = api(people.acme_reader_key)
    path = f"/v1/ns/acme/groups/{desk.group.name}"
    for refused in (
        post(reader, f"{path}/dlq:redrive", {"all": True, "dry_run": True}),
        post(reader, f"{path}/dlq:purge", {"all": True}),
        post(reader, f"/v1/ns/acme/tasks/{task['id']}:cancel"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert reader.get(f"/v1/ns/acme/tasks/{task['id']}").status_code == 200
    assert reader.get("/v1/ns/acme/tasks").status_code == 200


def test_foreign_group_and_task_look_like_absent_ones(
    people: People, api: Api, acme: Client, desk: Desk
) -> None:
    task = ordered(acme, desk, all=True)["id"]
    rival = api(people.rival_key)
    path = f"groups/{desk.group.name}/dlq"
    answers = {
        (response.status_code, response.json()["code"])
        for verb in ("redrive", "purge")
        for response in (
            post(rival, f"/v1/ns/acme/{path}:{verb}", {"all": True}),
            post(rival, f"/v1/ns/nobody/{path}:{verb}", {"all": True}),
        )
    }
    assert answers == {(404, "NAMESPACE_NOT_FOUND")}
    assert post(rival, f"/v1/ns/-/{path}:redrive", {"all": True}).json()["code"] == (
        "GROUP_NOT_FOUND"
    )
    for response in (
        rival.get(f"/v1/ns/-/tasks/{task}"),
        rival.get(f"/v1/ns/-/tasks/{task}/failures"),
        rival.get("/v1/ns/-/tasks", {"before": task}),
        post(rival, f"/v1/ns/-/tasks/{task}:cancel"),
    ):
        assert (response.status_code, response.json()["code"]) == (404, "TASK_NOT_FOUND")
    assert rival.get("/v1/ns/-/tasks").json() == {"tasks": [], "next": None}
    assert rival.get(f"/v1/ns/acme/tasks/{task}").json()["code"] == "NAMESPACE_NOT_FOUND"
    assert Client().get(f"/v1/ns/acme/tasks/{task}").status_code == 401
