"""Schemas of topics over REST: who may read and change them, what is refused, what is audited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.topic_schemas.limits import DEFINITION_BYTES_MAX
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topics.models import Topic
from tests.mqservice.topic_schemas.descriptors import LEGACY, ORDER, set_of
from tests.people import People

TOPIC = "/v1/ns/acme/topics/orders"
URL = f"{TOPIC}/schema"
JSON = "application/json"
LONG = {"kind": "avro", "definition": '"long"'}
Api = Callable[[str], Client]


@pytest.fixture
def topic(people: People) -> Topic:
    return Topic.objects.create(namespace=people.acme, name="orders")


def _sha256(definition: str) -> str:
    return hashlib.sha256(definition.encode()).hexdigest()


@pytest.mark.usefixtures("topic")
def test_a_schema_is_set_read_replaced_and_deleted(people: People, api: Api) -> None:
    key = api(people.acme_key)
    assert key.get(URL).json()["code"] == "SCHEMA_NOT_FOUND"
    made = key.put(URL, LONG, JSON)
    assert made.status_code == 201
    assert made.json() | {"created_at": "", "updated_at": ""} == {
        "topic": "orders", "namespace": "acme", **LONG, "message": None,
        "created_at": "", "updated_at": "",
    }  # fmt: skip
    assert key.put(URL, LONG, JSON)["ETag"] == made["ETag"] == '"1"'
    order = {"kind": "protobuf", "definition": set_of(ORDER)}
    changed = key.put(URL, order, JSON, headers={"if-match": '"1"'})
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    assert changed.json()["message"] == "shop.Order"
    for stale in (key.put(URL, LONG, JSON, headers={"if-match": '"1"'}),
                  key.delete(URL, headers={"if-match": '"1"'})):  # fmt: skip
        assert stale.json()["code"] == "PRECONDITION_FAILED"
    read = api(people.acme_viewer_key).get(URL)
    assert (read.json(), read["ETag"]) == (changed.json(), '"2"')
    assert key.delete(URL).status_code == 204
    assert key.delete(URL).json()["code"] == "SCHEMA_NOT_FOUND"
    sha256, other = _sha256(LONG["definition"]), _sha256(order["definition"])
    told = AuditEntry.objects.filter(action__startswith="schema.").order_by("id")
    avro = {"kind": "avro", "message": "", "sha256": sha256}
    protobuf = {"kind": "protobuf", "message": "shop.Order", "sha256": other}
    assert [(each.action, each.target, each.before, each.after) for each in told] == [
        ("schema.put", "schemas/orders", None, avro),
        ("schema.put", "schemas/orders", avro, protobuf),
        ("schema.delete", "schemas/orders", protobuf, None),
    ]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"kind": "avro", "definition": "{"}, "/definition", "not valid JSON"),
        ({"kind": "avro", "definition": "[" * 10_000}, "/definition", "not valid JSON"),
        ({"kind": "avro", "definition": '"\0"'}, "/definition", "not valid JSON"),
        ({"kind": "avro", "definition": '"\\ud800"'}, "/definition", ""),
        (
            {"kind": "avro", "definition": " " * DEFINITION_BYTES_MAX + '"int"'},
            "/definition",
            "must have at most 262144 bytes, found 262149",
        ),
        ({**LONG, "message": "Order"}, "/message", "must be left out"),
        ({"kind": "protobuf", "definition": '"long"'}, "/definition", "must be base64"),
        (
            {"kind": "protobuf", "definition": set_of(ORDER, LEGACY)},
            "/message",
            "say which message bodies are",
        ),
        (
            {"kind": "protobuf", "definition": set_of(ORDER), "message": "m" * 10_000},
            "/message",
            "has no message 'mmm",
        ),
        ({"kind": "thrift", "definition": ""}, "/kind", ""),
        ({**LONG, "more": 1}, "/more", ""),
    ],
)
def test_what_is_no_schema_is_refused(
    people: People, api: Api, body: dict[str, str], pointer: str, detail: str
) -> None:
    answer = api(people.acme_key).put(URL, body, JSON)
    assert answer.status_code == 400
    fault = answer.json()["errors"][0]
    assert fault["pointer"] == pointer
    assert detail in fault["detail"]
    assert len(fault["detail"]) < 1_000
    assert not TopicSchema.objects.exists()


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_half_of_a_character_is_no_definition(people: People, api: Api, kind: str) -> None:
    body = f'{{"kind": "{kind}", "definition": "\\ud800"}}'
    answer = api(people.acme_key).put(URL, body, JSON)
    assert answer.json()["code"] == "ILLEGAL_SETTING"


@pytest.mark.usefixtures("topic")
def test_half_of_a_character_is_no_message(people: People, api: Api) -> None:
    body = json.dumps({"kind": "protobuf", "definition": set_of(ORDER), "message": "\ud800"})
    answer = api(people.acme_key).put(URL, body, JSON)
    assert answer.json()["errors"][0]["pointer"] == "/message"


def test_a_definition_as_large_as_may_be_is_kept(people: People, api: Api, topic: Topic) -> None:
    text = json.dumps({"type": "record", "name": "R", "doc": "", "fields": []})
    full = text.replace('"doc": ""', f'"doc": "{"x" * (DEFINITION_BYTES_MAX - len(text))}"')
    answer = api(people.acme_key).put(URL, {"kind": "avro", "definition": full}, JSON)
    assert answer.status_code == 201
    assert TopicSchema.objects.get(topic=topic).definition == full


def test_only_who_manages_the_topic_changes_its_schema(
    people: People, api: Api, topic: Topic
) -> None:
    for key in (people.acme_viewer_key, people.acme_reader_key):
        assert api(key).put(URL, LONG, JSON).json()["code"] == "FORBIDDEN"
        assert api(key).delete(URL).json()["code"] == "FORBIDDEN"
    rival = api(people.rival_key)
    assert rival.put(URL, LONG, JSON).json()["code"] == "NAMESPACE_NOT_FOUND"
    absent = "/v1/ns/rival/topics/orders/schema"
    for answer in (rival.get(absent), rival.put(absent, LONG, JSON), rival.delete(absent)):
        assert answer.json()["code"] == "TOPIC_NOT_FOUND"
    assert not TopicSchema.objects.filter(topic=topic).exists()


def test_a_topic_takes_its_schema_with_it(people: People, api: Api, topic: Topic) -> None:
    assert api(people.acme_key).put(URL, LONG, JSON).status_code == 201
    topic.delete()
    assert not TopicSchema.objects.exists()
