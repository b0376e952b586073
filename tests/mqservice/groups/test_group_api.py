"""Consumer groups over REST: create, change, read, list, and each way to be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import ReceiveRequest, StoreMessage, blocking_client, encode_record
from mqservice.store import new_message_id as new_id
from tests.people import People

Api = Callable[[str], Client]
JSON = "application/json"


def test_created_group_has_the_defaults_of_the_service(engine: str, acme: Client) -> None:
    response = acme.put("/v1/ns/acme/groups/billing")
    assert response.status_code == 201
    body = response.json()
    assert (body["lease"], body["lease_ms"]) == ("1m", 60_000)
    assert (body["max_attempts"], body["start_from"]) == (17, "earliest")


def test_policy_can_be_changed(engine: str, acme: Client) -> None:
    path = "/v1/ns/acme/groups/changing"
    acme.put(path, data="{}", content_type=JSON)
    body = '{"lease": "30s", "max_attempts": 5, "start_from": "latest"}'
    response = acme.put(path, data=body, content_type=JSON)
    assert response.status_code == 200
    assert response["ETag"] == '"2"'
    row = ConsumerGroup.objects.get(name="changing")
    assert (row.lease_ms, row.max_reconsume_times, row.start_from) == (30_000, 4, "latest")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ('{"lease": "500ms"}', "/lease"),
        ('{"lease": "13h"}', "/lease"),
        ('{"lease": "long"}', "/lease"),
        ('{"lease": "30s", "lease_ms": 30000}', "/lease"),
        ('{"max_attempts": 0}', "/max_attempts"),
        ('{"max_attempts": 1001}', "/max_attempts"),
        ('{"start_from": "middle"}', "/start_from"),
        ('{"start_time": 5}', "/start_time"),
        ('{"start_from": "timestamp"}', "/start_time"),
        ('{"start_time": "2026-11-21T09:00:00Z"}', "/start_time"),
        ('{"start_from": "timestamp", "start_time": "today"}', "/start_time"),
        (  # in UTC it lies in the year 10000, which no answer could show
            '{"start_from": "timestamp", "start_time": "9999-12-31T23:59:59-01:00"}',
            "/start_time",
        ),
        ('{"ordered": 1}', "/ordered"),
    ],
)
def test_bad_policy_is_refused_with_its_place(acme: Client, body: str, pointer: str) -> None:
    response = acme.put("/v1/ns/acme/groups/billing", data=body, content_type=JSON)
    assert response.status_code == 400
    assert pointer in [item["pointer"] for item in response.json()["errors"]]
    assert not ConsumerGroup.objects.exists()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("[" * 100_000, ""),
        ('{"retry": {"policy": "exponential", "factor": 1%s}}' % ("0" * 400), "/retry/factor"),
        ('{"lease_ms": 1%s}' % ("0" * 400), "/lease_ms"),
    ],
    ids=["deep", "factor", "lease"],
)
def test_a_body_beyond_all_measure_is_refused_in_few_words(
    acme: Client, body: str, pointer: str
) -> None:
    response = acme.put("/v1/ns/acme/groups/billing", data=body, content_type=JSON)
    assert response.status_code == 400, response.content
    [fault] = response.json()["errors"]
    assert fault["pointer"] == pointer
    assert len(response.content) < 1_000


def test_a_group_may_start_at_a_time(engine: str, acme: Client) -> None:
    path = "/v1/ns/acme/groups/timed"
    body = '{"start_from": "timestamp", "start_time": "2026-11-21T10:00:00.5+01:00"}'
    created = acme.put(path, data=body, content_type=JSON)
    assert created.status_code == 201
    for answer in (created, acme.get(path)):
        shown = answer.json()
        assert (shown["start_from"], shown["start_time"]) == (
            "timestamp",
            "2026-11-21T09:00:00.500Z",
        )
    with blocking_client(MAIN_SHARD) as client:
        [config] = [each for each in client.group_list().groups if each.group == "acme%timed"]
    assert (config.start_from, config.start_ms) == ("timestamp", 1_795_251_600_500)
    again = acme.put(path, data='{"start_from": "latest"}', content_type=JSON)
    assert again.json()["start_time"] is None


def test_illegal_name_is_refused(acme: Client) -> None:
    response = acme.put("/v1/ns/acme/groups/CID_RMQ_SYS_x")
    assert (response.status_code, response.json()["code"]) == (400, "ILLEGAL_GROUP")


def test_lag_of_a_group_that_has_read_nothing_is_unknown(engine: str, acme: Client) -> None:
    acme.put("/v1/ns/acme/groups/new", data="{}", content_type=JSON)
    lag = acme.get("/v1/ns/acme/groups/new").json()["lag"]
    names = ("total", "lag_is", "lag_ms", "ready", "inflight", "waiting_retry")
    assert lag == {**dict.fromkeys(names), "queues": []}


def test_lag_counts_what_the_group_has_not_settled(engine: str, acme: Client) -> None:
    # Given three messages, one of them leased
    acme.put("/v1/ns/acme/topics/lagging", data='{"queues": 1}', content_type=JSON)
    acme.put("/v1/ns/acme/groups/slow")
    with blocking_client(MAIN_SHARD) as client:
        client.put([encode_record(message("acme%lagging")) for _ in range(3)])
        client.receive(
            ReceiveRequest(
                group="acme%slow", topic="acme%lagging", member_id="m", messages_max=1,
                bytes_max=1_000_000, wait_ms=5_000, lease_ms=60_000,
            )
        )  # fmt: skip
    # When the group is read
    lag = acme.get("/v1/ns/acme/groups/slow").json()["lag"]
    # Then all three lag, and one is in flight
    assert (lag["total"], lag["ready"], lag["inflight"], lag["waiting_retry"]) == (3, 2, 1, 0)
    assert [
        (queue["topic"], queue["offset_lag"], queue["inflight"]) for queue in lag["queues"]
    ] == [("lagging", 3, 1)]


def test_lag_is_unknown_while_the_engine_is_unavailable(people: People, acme: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    response = acme.get("/v1/ns/acme/groups/billing")
    assert response.status_code == 200
    assert response.json()["lag"] is None


def test_list_shows_only_the_own_namespace(people: People, acme: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    ConsumerGroup.objects.create(namespace=people.rival, name="hidden")
    body = acme.get("/v1/ns/-/groups").json()
    assert [group["name"] for group in body["groups"]] == ["billing"]
    assert body["next"] is None


def test_list_of_names_that_have_a_text_in_them(people: People, acme: Client) -> None:
    for name in ("billing", "Mailing", "audit"):
        ConsumerGroup.objects.create(namespace=people.acme, name=name)
    body = acme.get("/v1/ns/-/groups", {"contains": "ling"}).json()
    assert [group["name"] for group in body["groups"]] == ["Mailing", "billing"]


def test_foreign_group_looks_like_an_absent_one(people: People, acme: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.rival, name="secret")
    codes = {
        (response.status_code, response.json()["code"])
        for response in (
            acme.get("/v1/ns/rival/groups/secret"),
            acme.get("/v1/ns/nobody/groups/secret"),
            acme.put("/v1/ns/rival/groups/secret"),
        )
    }
    assert codes == {(404, "NAMESPACE_NOT_FOUND")}
    assert acme.get("/v1/ns/acme/groups/secret").json()["code"] == "GROUP_NOT_FOUND"


def test_key_without_manage_may_not_create(people: People, api: Api) -> None:
    response = api(people.acme_reader_key).put("/v1/ns/acme/groups/billing")
    assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")


def message(topic: str) -> StoreMessage:
    return StoreMessage(
        topic=topic, queue_id=0, body=b"x", tag=None, keys=[], message_group=None, properties={},
        born_timestamp_ms=1, born_host=("127.0.0.1", 1), message_id=new_id(),
    )  # fmt: skip
