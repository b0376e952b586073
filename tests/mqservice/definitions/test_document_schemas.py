"""Schemas of topics in a document of definitions: out and in, previewed, audited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry, Role
from mqservice.accounts.services import create_api_key
from mqservice.definitions import documents
from mqservice.topic_schemas.models import TopicSchema
from tests.mqservice.topic_schemas.descriptors import LEGACY, ORDER, set_of
from tests.people import People

Api = Callable[[str], Client]
Json = dict[str, Any]  # Any: documents are looked into field by field
JSON = "application/json"
PATH = "/v1/ns/acme/definitions"
LONG: Json = {"kind": "avro", "definition": '"long"', "message": None}
TEXT: Json = {"kind": "avro", "definition": '"string"', "message": None}
PROTOBUF: Json = {"kind": "protobuf", "definition": set_of(ORDER), "message": "shop.Order"}


def document(*topics: Json, version: int = 2) -> Json:
    return {"version": version, "topics": [*topics]}


def sent(client: Client, content: Json, query: str = "") -> Any:  # Any: the client's answer
    return client.post(f"{PATH}:import{query}", json.dumps(content), content_type=JSON)


def summary(schema: Json) -> Json:
    digest = hashlib.sha256(schema["definition"].encode()).hexdigest()
    return {"kind": schema["kind"], "message": schema["message"], "sha256": digest}


@pytest.mark.parametrize("accept", [JSON, "application/yaml"])
def test_schemas_are_exported_and_imported_elsewhere_without_a_loss(
    engine: str, people: People, api: Api, acme: Client, accept: str
) -> None:
    for topic, schema in (("a", LONG), ("b", PROTOBUF)):
        acme.put(f"/v1/ns/acme/topics/{topic}")
        assert acme.put(f"/v1/ns/acme/topics/{topic}/schema", schema, JSON).status_code == 201
    acme.put("/v1/ns/acme/topics/c")
    exported = acme.get(PATH, headers={"accept": accept})
    rival = api(people.rival_key)

    done = rival.post("/v1/ns/rival/definitions:import", exported.content, content_type=accept)

    assert done.json()["created"] == 3, done.content
    assert rival.get("/v1/ns/rival/definitions", headers={"accept": accept}).content == (
        exported.content
    )
    found = acme.get(PATH).json()
    assert found["version"] == 2
    assert [each.get("schema") for each in found["topics"]] == [LONG, PROTOBUF, None]
    assert "schema" not in found["topics"][2]
    read = rival.get("/v1/ns/rival/topics/b/schema").json()
    assert {name: read[name] for name in PROTOBUF} == PROTOBUF


def test_an_import_says_what_becomes_of_each_schema_and_does_it(acme: Client, engine: str) -> None:
    sent(
        acme, document({"name": "a", "schema": LONG}, {"name": "b"}, {"name": "c", "schema": LONG})
    )
    first = AuditEntry.objects.latest("id").pk
    wanted = document(
        {"name": "a", "schema": TEXT},
        {"name": "b", "queues": 6, "schema": PROTOBUF},
        {"name": "c", "schema": LONG},
        {"name": "d", "schema": PROTOBUF | {"message": None}},
    )

    preview = sent(acme, wanted, "?dry_run=true").json()

    assert [each["action"] for each in preview["topics"]] == [
        "changed", "changed", "unchanged", "created",
    ]  # fmt: skip
    a, b, c, d = preview["topics"]
    assert (a["before"], a["after"]) == ({"schema": summary(LONG)}, {"schema": summary(TEXT)})
    assert b["before"] == {"queues": 4, "schema": None}
    assert b["after"] == {"queues": 6, "schema": summary(PROTOBUF)}
    assert (c["before"], c["after"]) == ({}, {})
    assert (d["before"], d["after"]["schema"]) == (None, summary(PROTOBUF))
    assert TopicSchema.objects.count() == 2
    assert AuditEntry.objects.latest("id").pk == first
    assert sent(acme, wanted).json() == preview | {"dry_run": False}
    rows = TopicSchema.objects.order_by("topic__name")
    assert list(rows.values_list("topic__name", "definition", "message", "revision")) == [
        ("a", TEXT["definition"], "", 2),
        ("b", PROTOBUF["definition"], "shop.Order", 1),
        ("c", LONG["definition"], "", 1),
        ("d", PROTOBUF["definition"], "shop.Order", 1),
    ]
    told = AuditEntry.objects.filter(pk__gt=first, action="schema.put").order_by("id")
    assert [(each.target, each.before and each.before["sha256"]) for each in told] == [
        ("schemas/a", summary(LONG)["sha256"]),
        ("schemas/b", None),
        ("schemas/d", None),
    ]
    again = sent(acme, wanted).json()
    assert (again["unchanged"], again["changed"]) == (4, 0)
    assert AuditEntry.objects.filter(pk__gt=first, action="schema.put").count() == 3


def test_several_schemas_that_change_keep_when_they_were_set_first(
    acme: Client, engine: str
) -> None:
    sent(acme, document({"name": "a", "schema": LONG}, {"name": "b", "schema": LONG}))
    before = dict(TopicSchema.objects.values_list("topic__name", "created_at"))
    sent(acme, document({"name": "a", "schema": TEXT}, {"name": "b", "schema": PROTOBUF}))
    rows = TopicSchema.objects.order_by("topic__name")
    assert dict(rows.values_list("topic__name", "created_at")) == before
    assert [row.revision for row in rows] == [2, 2]
    assert all(row.updated_at > row.created_at for row in rows)


def test_what_leaves_schemas_out_leaves_them_as_they_are(acme: Client, engine: str) -> None:
    sent(acme, document({"name": "a", "schema": LONG}))
    for content in (
        document({"name": "a", "queues": 5}),
        document({"name": "a", "queues": 6, "schema": None}),
        document({"name": "a", "queues": 7}, version=1),
    ):
        assert sent(acme, content).json()["changed"] == 1
    assert TopicSchema.objects.get().definition == LONG["definition"]


def test_a_document_of_the_first_version_has_no_schemas(acme: Client, engine: str) -> None:
    answer = sent(acme, document({"name": "a", "schema": LONG}, version=1))
    assert answer.status_code == 400
    assert [(each["pointer"], each["detail"]) for each in answer.json()["errors"]] == [
        ("/topics/0/schema", "unknown field")
    ]
    groups = {"version": 2, "groups": [{"name": "g", "schema": LONG}]}
    assert sent(acme, groups).json()["errors"][0]["pointer"] == "/groups/0/schema"


@pytest.mark.parametrize(
    ("schema", "pointers"),
    [
        ("long", ["/topics/1/schema"]),
        ({}, ["/topics/1/schema/kind", "/topics/1/schema/definition"]),
        ({"kind": "thrift", "definition": 7}, ["/topics/1/schema/kind",
                                                "/topics/1/schema/definition"]),
        (LONG | {"more": 1}, ["/topics/1/schema/more"]),
        (LONG | {"definition": "{"}, ["/topics/1/schema/definition"]),
        (LONG | {"message": "Order"}, ["/topics/1/schema/message"]),
        (PROTOBUF | {"definition": set_of(ORDER, LEGACY), "message": None},
         ["/topics/1/schema/message"]),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_told_with_its_place_and_nothing_is_done(
    acme: Client, engine: str, schema: object, pointers: list[str]
) -> None:
    wanted = document({"name": "a", "schema": LONG}, {"name": "b", "schema": schema})
    for query in ("?dry_run=true", ""):
        answer = sent(acme, wanted, query)
        assert answer.status_code == 400
        assert [each["pointer"] for each in answer.json()["errors"]] == pointers
    assert not TopicSchema.objects.exists()
    assert acme.get(PATH).json()["topics"] == []


def test_a_schema_that_the_engine_would_have_followed_goes_with_the_rest(
    acme: Client, monkeypatch: pytest.MonkeyPatch, engine: str, settings: Any
) -> None:
    settings.MQ_ENGINE_SOCKET = "/nonexistent/engine.sock"
    assert sent(acme, document({"name": "a", "schema": LONG})).status_code == 503
    assert not TopicSchema.objects.exists()
    assert not AuditEntry.objects.filter(action="schema.put").exists()


def test_schemas_that_no_document_could_hold_are_exported_in_parts(
    acme: Client, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(acme, document({"name": "a", "schema": LONG}, {"name": "b", "schema": TEXT}))
    monkeypatch.setattr(documents, "SCHEMA_CHARS_MAX", len(TEXT["definition"]))
    refused = acme.get(PATH)
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    assert refused.json()["errors"][0]["pointer"] == "?prefix"
    assert "schemas" in refused.json()["detail"]
    assert acme.get(PATH, {"prefix": "b"}).json()["topics"][0]["schema"] == TEXT


def test_a_key_imports_schemas_of_the_topics_that_it_manages(
    people: People, api: Api, engine: str
) -> None:
    scopes = ["manage:topic/own"]
    key = create_api_key(people.acme.tenant, name="n", scopes=scopes, role=Role.DEVELOPER)[1]
    client = api(key)
    assert sent(client, document({"name": "own", "schema": LONG})).json()["created"] == 1
    refused = sent(client, document({"name": "other", "schema": LONG}))
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert TopicSchema.objects.get().topic.name == "own"
