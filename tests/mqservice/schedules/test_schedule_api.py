"""Schedules over REST: made, changed, read, paused, sent, each way to be refused, nobody else's."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key
from mqservice.idempotency.models import AnsweredRequest
from mqservice.schedules import services
from mqservice.schedules.limits import BODY_BYTES_MAX
from mqservice.schedules.models import Schedule
from mqservice.topics.models import Topic
from tests.mqservice.schedules.conftest import Desk
from tests.people import People

Api = Callable[[str], Client]
JSON = "application/json"
PATH = "/v1/ns/acme/schedules/nightly"
NIGHTLY = {
    "topic": "ticks", "cron": "0 3 * * *", "time_zone": "Europe/Berlin",
    "message": {"body_json": {"n": 1.0}, "tag": "t", "keys": ["k"], "properties": {"a": "b"}},
}  # fmt: skip


@pytest.fixture
def acme(people: People, api: Api, desk: Desk) -> Client:
    return api(people.acme_key)


def put(client: Client, body: object = NIGHTLY, path: str = PATH, **headers: str) -> Any:
    # Any: the test client's response, which has no useful type
    return client.put(path, data=body, content_type=JSON, headers=headers)


def post(client: Client, path: str, body: object = None) -> Any:  # Any: as above
    return client.post(path, data=body or {}, content_type=JSON)


def test_a_new_schedule_is_read_back_with_its_next_runs(acme: Client) -> None:
    made = put(acme)
    assert (made.status_code, made["ETag"]) == (201, '"1"')
    body = made.json()
    assert {name: body[name] for name in ("topic", "cron", "time_zone", "catch_up")} == {
        "topic": "ticks", "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "catch_up": "latest",
    }  # fmt: skip
    assert (body["state"], body["enabled"], body["error"]) == ("active", True, None)
    assert (body["last_run"], body["missed_at"], body["retrying"]) == (None, None, False)
    assert body["message"] == {
        "body": None, "body_json": {"n": 1.0}, "body_b64": None, "tag": "t", "keys": ["k"],
        "message_group": None, "properties": {"a": "b"}, "queue": None,
    }  # fmt: skip
    assert body["created_by"].startswith("key:")
    assert len(body["next_runs"]) == 10
    assert body["next_runs"][0] == body["next_run_at"] > _now()
    assert {text[11:16] for text in body["next_runs"]} <= {"01:00", "02:00"}
    read = acme.get(PATH)
    assert (read.status_code, read["ETag"], read.json()) == (200, '"1"', body)
    [listed] = acme.get("/v1/ns/acme/schedules").json()["schedules"]
    assert listed == body | {"next_runs": None}


def _now() -> str:
    return datetime.now(UTC).isoformat()


def test_what_is_left_out_stays_and_nothing_changed_is_no_revision(acme: Client) -> None:
    put(acme, NIGHTLY | {"description": "each night"})
    changed = put(acme, {"cron": "@hourly"})
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    body = changed.json()
    assert (body["cron"], body["time_zone"], body["description"]) == (
        "@hourly", "Europe/Berlin", "each night",
    )  # fmt: skip
    assert body["message"]["tag"] == "t"
    assert put(acme, {})["ETag"] == put(acme, NIGHTLY | {"cron": "@hourly"})["ETag"] == '"2"'
    replaced = put(acme, {"message": {"body": "only"}}).json()["message"]
    assert (replaced["body"], replaced["tag"], replaced["keys"]) == ("only", None, [])


def test_bodies_of_each_form_come_out_as_they_would_go_in(acme: Client) -> None:
    raw = base64.b64encode(b"\xff\x00").decode()
    for message in ({"body": "täglich"}, {"body_json": [1, {"a": None}]}, {"body_b64": raw}):
        shown = put(acme, NIGHTLY | {"message": message}).json()["message"]
        [(name, value)] = message.items()
        assert shown[name] == value
        others = {"body", "body_json", "body_b64"} - {name}
        assert all(shown[other] is None for other in others)


def test_a_list_goes_by_pages(acme: Client) -> None:
    for name in "abc":
        put(acme, path=f"/v1/ns/acme/schedules/{name}")
    first = acme.get("/v1/ns/acme/schedules?limit=2").json()
    assert [each["name"] for each in first["schedules"]] == ["a", "b"]
    rest = acme.get(f"/v1/ns/acme/schedules?limit=2&after={first['next']}").json()
    assert ([each["name"] for each in rest["schedules"]], rest["next"]) == (["c"], None)


def test_paused_resumed_and_deleted(acme: Client) -> None:
    put(acme)
    paused = post(acme, f"{PATH}:pause").json()
    assert (paused["state"], paused["enabled"], paused["next_run_at"]) == ("paused", False, None)
    assert acme.get(PATH).json()["next_runs"] == []
    assert post(acme, f"{PATH}:pause").json() == paused
    resumed = post(acme, f"{PATH}:resume").json()
    assert resumed["state"] == "active"
    assert resumed["next_run_at"] > _now()
    assert acme.delete(PATH, headers={"If-Match": '"1"'}).status_code == 412
    assert acme.delete(PATH).status_code == 204
    assert acme.get(PATH).json()["code"] == "SCHEDULE_NOT_FOUND"


def test_sent_now_besides_its_runs(acme: Client, desk: Desk) -> None:
    before = put(acme).json()
    post(acme, f"{PATH}:pause")
    answer = post(acme, f"{PATH}:send")
    assert answer.status_code == 200, answer.content
    [record] = desk.stored()
    assert answer.json() == {
        "id": record.message_id, "topic": "ticks", "queue": 0, "offset": record.queue_offset,
        "stored_at": answer.json()["stored_at"],
    }  # fmt: skip
    assert (record.body, record.properties["mq_schedule"]) == (b'{"n": 1.0}', "nightly")
    assert "mq_planned_at" not in record.properties
    assert acme.get(PATH).json()["last_run"] is None is before["last_run"]
    post(acme, f"{PATH}:send")
    assert len(desk.stored()) == 2


def test_sent_now_under_a_key_is_sent_once(acme: Client, desk: Desk) -> None:
    put(acme)
    headers = {"Idempotency-Key": "k-1"}
    first = acme.post(f"{PATH}:send", headers=headers).json()
    # As after a crash between the put and the commit: the service knows nothing of the request
    AnsweredRequest.objects.all().delete()
    put(acme, {"message": {"body": "changed meanwhile"}})
    assert acme.post(f"{PATH}:send", headers=headers).json() == first
    assert [record.message_id for record in desk.stored()] == [first["id"]]
    acme.post(f"{PATH}:send", headers={"Idempotency-Key": "k-2"})
    assert len(desk.stored()) == 2


def test_a_schedule_whose_topic_was_deleted_is_failing_at_once(acme: Client) -> None:
    put(acme)
    Topic.objects.all().delete()
    body = acme.get(PATH).json()
    assert (body["state"], body["error"]) == (
        "failing", "TOPIC_NOT_FOUND: ticks does not exist",
    )  # fmt: skip
    assert acme.get("/v1/ns/acme/schedules").json()["schedules"][0]["state"] == "failing"
    assert post(acme, f"{PATH}:send").json()["code"] == "TOPIC_NOT_FOUND"
    assert post(acme, f"{PATH}:pause").status_code == 200, "what is failing can be paused"


def test_a_run_that_failed_shows_until_the_next_one(acme: Client, desk: Desk) -> None:
    put(acme)
    Schedule.objects.update(last_ms=1_800_000_000_000, last_error="BODY_TOO_LARGE: too large")
    body = acme.get(PATH).json()
    assert (body["state"], body["error"]) == ("failing", "BODY_TOO_LARGE: too large")
    assert body["last_run"] == {
        "planned_at": "2027-01-15T08:00:00.000Z", "message_id": None,
        "error": "BODY_TOO_LARGE: too large",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status", "code", "pointer"),
    [
        ({"cron": "0 25 * * *"}, 400, "ILLEGAL_SETTING", "/cron"),
        ({"cron": "* * * * * *"}, 400, "ILLEGAL_SETTING", "/cron"),
        ({"cron": 5}, 400, "BAD_REQUEST", "/cron"),
        ({"cron": None}, 400, "BAD_REQUEST", "/cron"),
        ({"time_zone": "Berlin"}, 400, "ILLEGAL_SETTING", "/time_zone"),
        ({"catch_up": "all"}, 400, "BAD_REQUEST", "/catch_up"),
        ({"topic": "a b"}, 400, "BAD_REQUEST", "/topic"),
        ({"topic": None}, 400, "BAD_REQUEST", "/topic"),
        ({"topic": "nowhere"}, 404, "TOPIC_NOT_FOUND", None),
        ({"description": "x" * 201}, 400, "BAD_REQUEST", "/description"),
        ({"message": None}, 400, "BAD_REQUEST", "/message"),
        ({"message": {}}, 400, "BAD_REQUEST", "/message"),
        ({"message": []}, 400, "BAD_REQUEST", "/message"),
        ({"message": {"body": "x", "delay": "1h"}}, 400, "BAD_REQUEST", "/message/delay"),
        ({"message": {"body": "x", "dedup_id": "1"}}, 400, "BAD_REQUEST", "/message/dedup_id"),
        ({"message": {"body": "x", "tag": "a|b"}}, 400, "ILLEGAL_TAG", "/message/tag"),
        ({"message": {"body": "x", "queue": 9}}, 404, "QUEUE_NOT_FOUND", "/message/queue"),
        ({"message": {"body": "x", "tig": "a"}}, 400, "BAD_REQUEST", "/message/tig"),
        ({"message": {"body": "x" * (BODY_BYTES_MAX + 1)}}, 413, "BODY_TOO_LARGE", "/message"),
        ({"interval": "1h"}, 400, "BAD_REQUEST", "/interval"),
    ],
)
def test_what_is_refused_says_where(
    acme: Client, change: dict[str, object], status: int, code: str, pointer: str | None
) -> None:
    answer = put(acme, NIGHTLY | change)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (status, code), body
    if pointer is not None:
        assert body["errors"][0]["pointer"] == pointer
    assert not Schedule.objects.exists()


def test_a_topic_that_takes_no_such_message_refuses_the_schedule(acme: Client, desk: Desk) -> None:
    desk.make_topic("ordered", message_type="fifo")
    answer = put(acme, NIGHTLY | {"topic": "ordered"})
    assert (answer.status_code, answer.json()["code"]) == (409, "MESSAGE_TYPE_CONFLICT")
    grouped = NIGHTLY | {"topic": "ordered", "message": {"body": "x", "message_group": "g"}}
    assert put(acme, grouped).status_code == 201


def test_a_name_that_is_none_and_too_many(
    acme: Client, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = put(acme, path="/v1/ns/acme/schedules/a.b")
    assert (answer.status_code, answer.json()["code"]) == (400, "ILLEGAL_SCHEDULE")
    monkeypatch.setattr(services, "SCHEDULES_MAX", 1)
    assert put(acme).status_code == 201
    answer = put(acme, path="/v1/ns/acme/schedules/other")
    assert (answer.status_code, answer.json()["code"]) == (403, "QUOTA_EXCEEDED")
    assert put(acme, {"cron": "@daily"}).status_code == 200


def test_a_lost_update_is_refused(acme: Client) -> None:
    put(acme)
    put(acme, {"cron": "@daily"})
    answer = put(acme, {"cron": "@weekly"}, **{"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["code"]) == (412, "PRECONDITION_FAILED")
    absent = put(acme, path="/v1/ns/acme/schedules/new", **{"If-Match": '"1"'})
    assert absent.status_code == 412


def test_an_expression_is_tried_without_a_schedule(acme: Client) -> None:
    path = "/v1/ns/acme/schedules:preview"
    times = post(acme, path, {"cron": "*/15 * * * *"}).json()["next_runs"]
    assert len(times) == 10
    assert times == sorted(times)
    refused = post(acme, path, {"cron": "*/15 * * *", "time_zone": "UTC"}).json()
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("ILLEGAL_SETTING", "/cron")
    assert post(acme, path, {"time_zone": "UTC"}).json()["errors"][0]["pointer"] == "/cron"


def test_who_may_not_produce_neither_makes_sends_nor_sees_the_message(
    acme: Client, people: People, api: Api
) -> None:
    put(acme)
    tenant = people.acme.tenant
    _, text = create_api_key(tenant, name="m", scopes=[Scope.MANAGE], namespace=people.acme)
    manager = api(text)
    for answer in (
        put(manager, {"cron": "@daily"}),
        put(manager, path="/v1/ns/acme/schedules/other"),
        post(manager, f"{PATH}:send"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
    assert manager.get(PATH).json()["message"] is None
    assert manager.get("/v1/ns/acme/schedules").json()["schedules"][0]["message"] is None
    assert post(manager, f"{PATH}:pause").status_code == 200
    viewer = api(people.acme_viewer_key)
    assert viewer.get(PATH).json()["message"] is None
    assert post(viewer, f"{PATH}:resume").status_code == 403


def test_nobody_elses_schedule_can_be_named(acme: Client, people: People, api: Api) -> None:
    put(acme)
    rival = api(people.rival_key)
    for path in (PATH, "/v1/ns/rival/schedules/nightly"):
        assert rival.get(path).status_code == 404
        assert rival.delete(path).status_code == 404
        for verb in ("pause", "resume", "send"):
            assert post(rival, f"{path}:{verb}").status_code == 404
    assert put(rival, {"cron": "@daily"}).status_code == 404
    assert rival.get("/v1/ns/acme/schedules").status_code == 404
    assert rival.get("/v1/ns/rival/schedules").json()["schedules"] == []
    refused = put(rival, path="/v1/ns/rival/schedules/nightly")
    assert refused.json()["code"] == "TOPIC_NOT_FOUND", "the topic is acme's"
    assert Schedule.objects.get().cron == "0 3 * * *"


def test_the_audit_tells_what_was_changed_and_no_message(acme: Client) -> None:
    put(acme)
    put(acme, {"cron": "@daily", "message": {"body": "secret"}})
    post(acme, f"{PATH}:pause")
    post(acme, f"{PATH}:resume")
    post(acme, f"{PATH}:send")
    acme.delete(PATH)
    entries = list(AuditEntry.objects.filter(target="schedules/nightly").order_by("id"))
    assert [entry.action for entry in entries] == [
        "schedule.put", "schedule.put", "schedule.pause", "schedule.resume", "schedule.send",
        "schedule.delete",
    ]  # fmt: skip
    assert entries[1].details == {"changed": ["cron", "message"]}
    assert (entries[1].before, entries[1].after) == ({"cron": "0 3 * * *"}, {"cron": "@daily"})
    assert all("secret" not in str(entry.__dict__) for entry in entries)
