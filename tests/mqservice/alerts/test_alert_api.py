"""Alerts over REST: made, changed, read, deleted, each way to be refused, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry
from mqservice.alerts import services
from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.models import AlertRule
from mqservice.groups.models import ConsumerGroup
from tests.mqservice.alerts.conftest import NOW_MS, Measured
from tests.people import People

Api = Callable[[str], Client]
JSON = "application/json"
LAG = {"kind": "lag", "group": "billing", "threshold": 100}
PATH = "/v1/ns/acme/alerts/slow"


@pytest.fixture
def acme(people: People, api: Api, settings: Settings) -> Client:
    settings.MQ_EMAIL_URL = "smtp://mail.example"
    return api(people.acme_key)


def put(client: Client, body: object = LAG, path: str = PATH, **headers: str) -> Any:
    # Any: the test client's response, which has no useful type
    return client.put(path, data=body, content_type=JSON, headers=headers)


def test_a_new_alert_has_defaults_and_is_read_back(acme: Client) -> None:
    made = put(acme)
    assert made.status_code == 201
    assert made["ETag"] == '"1"'
    body = made.json()
    assert {name: body[name] for name in ("kind", "group", "topic", "threshold", "for")} == {
        "kind": "lag", "group": "billing", "topic": None, "threshold": 100, "for": "0ms",
    }  # fmt: skip
    assert (body["state"], body["pending"], body["value"]) == ("ok", False, None)
    assert (body["webhook"], body["webhook_secret"], body["emails"]) == (None, None, [])
    read = acme.get(PATH)
    assert (read.status_code, read["ETag"], read.json()) == (200, '"1"', body)
    assert acme.get("/v1/ns/acme/alerts").json()["alerts"] == [body]


def test_what_is_left_out_stays_and_null_takes_away(acme: Client) -> None:
    put(acme, LAG | {"topic": "orders", "for": "5m", "webhook": "https://hooks.example/x"})
    changed = put(acme, {"threshold": 200, "emails": ["a@x.example", "a@x.example"]})
    assert changed.status_code == 200
    assert changed["ETag"] == '"2"'
    body = changed.json()
    assert (body["topic"], body["for_ms"], body["threshold"]) == ("orders", 300_000, 200)
    assert (body["webhook"], body["emails"]) == ("https://hooks.example/x", ["a@x.example"])
    body = put(acme, {"topic": None, "webhook": None}).json()
    assert (body["topic"], body["webhook"]) == (None, None)
    assert put(acme, {})["ETag"] == '"3"', "nothing was changed"


def test_the_secret_of_a_webhook_is_shown_once(acme: Client) -> None:
    first = put(acme, LAG | {"webhook": "https://hooks.example/"}).json()["webhook_secret"]
    assert first.startswith("whs_")
    assert put(acme, {"threshold": 5}).json()["webhook_secret"] is None
    assert acme.get(PATH).json()["webhook_secret"] is None
    second = put(acme, {"new_secret": True}).json()["webhook_secret"]
    assert second.startswith("whs_")
    assert second != first
    assert first not in str(list(AuditEntry.objects.values()))


def test_pagerduty_needs_a_key_of_its_own_and_no_url(acme: Client) -> None:
    made = put(acme, LAG | {"webhook_format": "pagerduty", "routing_key": "r" * 32}).json()
    assert made["webhook"] == "https://events.pagerduty.com/v2/enqueue"
    assert "r" * 32 not in str(list(AuditEntry.objects.values()))
    assert put(acme, {"webhook_format": "slack"}).json()["code"] == "ILLEGAL_SETTING"
    changed = put(
        acme, {"webhook_format": "slack", "routing_key": None, "webhook": "https://h.example/"}
    )
    assert changed.json()["routing_key"] is None


def test_if_match_guards_against_lost_updates(acme: Client) -> None:
    assert put(acme, **{"If-Match": '"1"'}).status_code == 412
    put(acme)
    assert put(acme, {"threshold": 3}, **{"If-Match": '"1"'}).status_code == 200
    assert put(acme, {"threshold": 4}, **{"If-Match": '"1"'}).status_code == 412
    assert acme.delete(PATH, headers={"If-Match": '"1"'}).status_code == 412
    assert acme.delete(PATH, headers={"If-Match": '"2"'}).status_code == 204
    assert acme.delete(PATH).json()["code"] == "ALERT_NOT_FOUND"


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"kind": None}, "ILLEGAL_SETTING", "/kind"),
        ({"kind": "weather"}, "BAD_REQUEST", "/kind"),
        ({"group": None}, "ILLEGAL_SETTING", "/group"),
        ({"group": "a%b"}, "BAD_REQUEST", "/group"),
        ({"group": 7}, "BAD_REQUEST", "/group"),
        ({"topic": "TBW102"}, "BAD_REQUEST", "/topic"),
        ({"threshold": None}, "ILLEGAL_SETTING", "/threshold"),
        ({"threshold": 0}, "ILLEGAL_SETTING", "/threshold"),
        ({"threshold": 1.5}, "BAD_REQUEST", "/threshold"),
        ({"threshold": 1 << 63}, "ILLEGAL_SETTING", "/threshold"),
        ({"for": "2d"}, "ILLEGAL_SETTING", "/for"),
        ({"for": "soon"}, "BAD_REQUEST", "/for"),
        ({"for": "1m", "for_ms": 1}, "BAD_REQUEST", "/for"),
        ({"window": "2h"}, "ILLEGAL_SETTING", "/window"),
        ({"enabled": "yes"}, "BAD_REQUEST", "/enabled"),
        ({"emails": "a@x.example"}, "BAD_REQUEST", "/emails"),
        ({"emails": ["a@x.example"] * 6}, "BAD_REQUEST", "/emails"),
        ({"emails": ["a@x.example", "b"]}, "BAD_REQUEST", "/emails/1"),
        ({"emails": ["a@x.example\r\nBcc: c@x.example"]}, "BAD_REQUEST", "/emails/0"),
        ({"webhook": 5}, "BAD_REQUEST", "/webhook"),
        ({"webhook": "http://hooks.example/"}, "ILLEGAL_SETTING", "/webhook"),
        ({"webhook": "https://127.0.0.1/"}, "ILLEGAL_SETTING", "/webhook"),
        ({"webhook": "https://[::ffff:169.254.169.254]/"}, "ILLEGAL_SETTING", "/webhook"),
        ({"webhook": "https://u:p@hooks.example/"}, "ILLEGAL_SETTING", "/webhook"),
        ({"webhook_format": "pager"}, "BAD_REQUEST", "/webhook_format"),
        ({"webhook_format": "pagerduty"}, "ILLEGAL_SETTING", "/routing_key"),
        ({"routing_key": "r"}, "ILLEGAL_SETTING", "/routing_key"),
        ({"routing_key": "r" * 65}, "BAD_REQUEST", "/routing_key"),
        ({"colour": "red"}, "BAD_REQUEST", "/colour"),
        ({"kind": "disk"}, "ILLEGAL_SETTING", "/group"),
        ({"kind": "disk", "group": None, "threshold": 101}, "ILLEGAL_SETTING", "/threshold"),
        ({"kind": "no_consumer", "topic": "orders"}, "ILLEGAL_SETTING", "/topic"),
        ({"kind": "dlq_growth", "topic": "orders"}, "ILLEGAL_SETTING", "/topic"),
    ],
)
def test_a_bad_setting_is_named(
    acme: Client, change: dict[str, object], code: str, pointer: str
) -> None:
    wanted = {name: value for name, value in (LAG | change).items() if value is not None}
    response = put(acme, wanted)
    assert response.status_code == 400, response.content
    assert response.json()["code"] == code
    assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]
    assert not AlertRule.objects.exists()


def test_addresses_are_refused_where_no_mail_can_be_sent(acme: Client, settings: Settings) -> None:
    settings.MQ_EMAIL_URL = ""
    response = put(acme, LAG | {"emails": ["a@x.example"]})
    assert response.status_code == 400
    assert "MQ_EMAIL_URL" in response.json()["detail"]


def test_plain_http_can_be_allowed_by_configuration(acme: Client, settings: Settings) -> None:
    settings.MQ_WEBHOOK_NETWORKS = [ip_network("10.0.0.0/8")]
    assert put(acme, LAG | {"webhook": "http://10.1.2.3/"}).status_code == 201


@pytest.mark.parametrize("name", ["a b", "TBW1", "x" * 65])
def test_a_bad_name_is_refused(acme: Client, name: str) -> None:
    response = put(acme, path=f"/v1/ns/acme/alerts/{name}")
    assert (response.status_code, response.json()["code"]) == (400, "ILLEGAL_ALERT")


def test_there_are_so_many_alerts_at_most(acme: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "RULES_MAX", 1)
    put(acme)
    response = put(acme, path="/v1/ns/acme/alerts/other")
    assert (response.status_code, response.json()["code"]) == (403, "QUOTA_EXCEEDED")
    assert put(acme, {"threshold": 7}).status_code == 200


def test_nobody_else_sees_or_changes_an_alert(acme: Client, people: People, api: Api) -> None:
    put(acme)
    rival = api(people.rival_key)
    for path in (PATH, f"{PATH}/history", "/v1/ns/acme/alerts"):
        assert rival.get(path).json()["code"] == "NAMESPACE_NOT_FOUND"
    assert put(rival).json()["code"] == "NAMESPACE_NOT_FOUND"
    assert rival.delete(PATH).json()["code"] == "NAMESPACE_NOT_FOUND"
    assert rival.get("/v1/ns/rival/alerts").json() == {"alerts": []}
    reader = api(people.acme_reader_key)
    assert reader.get(PATH).status_code == 200
    assert put(reader, {"threshold": 1}).status_code == 403
    assert reader.delete(PATH).status_code == 403
    assert Client().get(PATH).status_code == 401


def test_history_is_paged_from_the_newest_on(
    acme: Client, people: People, measured: Measured
) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    put(acme, LAG | {"emails": ["a@x.example"]})
    for index in range(5):
        measured(NOW_MS + index, lag_last=500 * ((index + 1) % 2))
        evaluate(NOW_MS + index)
    page = acme.get(f"{PATH}/history?limit=2").json()
    assert [(each["number"], each["state"], each["value"]) for each in page["events"]] == [
        (5, "firing", 500), (4, "ok", 0),
    ]  # fmt: skip
    assert page["events"][0]["notifications"] == [
        {"channel": "email", "target": "a@x.example", "state": "pending", "attempts": 0,
         "error": None},
    ]  # fmt: skip
    rest = acme.get(f"{PATH}/history?before={page['next']}").json()
    assert [each["number"] for each in rest["events"]] == [3, 2, 1]
    assert rest["next"] is None
    assert acme.get(f"{PATH}/history?limit=0").status_code == 400


def test_an_alert_that_is_switched_off_while_it_fires_ends(
    acme: Client, people: People, measured: Measured
) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    put(acme)
    measured(NOW_MS, lag_last=500)
    evaluate(NOW_MS)
    assert acme.get(PATH).json()["state"] == "firing"
    assert put(acme, {"enabled": False}).json()["state"] == "ok"
    events = acme.get(f"{PATH}/history").json()["events"]
    assert [(each["state"], each["value"]) for each in events] == [("ok", None), ("firing", 500)]


def test_another_subject_is_waited_for_again(
    acme: Client, people: People, measured: Measured
) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    put(acme, LAG | {"for": "1m"})
    measured(NOW_MS, lag_last=500)
    evaluate(NOW_MS)
    assert acme.get(PATH).json()["pending"] is True
    assert put(acme, {"group": "other"}).json()["pending"] is False
