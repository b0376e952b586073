"""Definitions as a document: nothing is lost on the way out and in, every fault has its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from mqservice.definitions import documents
from mqservice.definitions.documents import read_document
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem
from mqservice.topics.models import Topic
from tests.people import People

Api = Callable[[str], Client]
Json = dict[str, Any]  # Any: documents are looked into field by field
JSON = "application/json"
PATH = "/v1/ns/acme/definitions"
TOPICS: list[Json] = [
    {"name": "audit", "durability": "async", "retention": "30d"},
    {"name": "orders", "type": "fifo", "queues": 7, "body_bytes_max": 2_048, "retention": "90s"},
]
GROUPS: list[Json] = [
    {"name": "each", "dispatch": "broadcast", "lease": "2h", "consume_timeout": "12h"},
    {
        "name": "fixed", "dispatch": "exclusive", "strategy": "CONFIG", "ordered": True,
        "assignment": {"consumers": {"a": [0, 1], "b": [2]}},
    },
    {
        "name": "growing",
        "retry": {"policy": "exponential", "start": "2s", "factor": 1.5, "cap": "1h"},
    },
    {"name": "kept", "assignment": {"rooms": {"east": [3]}, "within_room": "CONSISTENT_HASH"}},
    {"name": "late", "start_from": "timestamp", "start_time": "2026-11-21T09:00:00.001Z"},
    {"name": "listed", "retry": {"policy": "list", "delays": ["10s", "1m"]}, "max_attempts": None},
    {"name": "plain", "batch_per_group": 32, "ordered": True, "max_attempts": 1},
    {
        "name": "rooms", "dispatch": "exclusive", "strategy": "MACHINE_ROOM", "lease": "1500ms",
        "assignment": {"rooms": {"east": [0], "west": [1]}, "read": ["east"]},
    },
]  # fmt: skip


def topics(*things: object) -> Json:
    return {"version": 1, "topics": list(things)}


def groups(*things: object) -> Json:
    return {"version": 1, "groups": list(things)}


def test_what_is_exported_is_imported_elsewhere_without_a_loss(
    engine: str, people: People, api: Api, acme: Client
) -> None:
    for kind, things in (("topics", TOPICS), ("groups", GROUPS)):
        for thing in things:
            settings = {name: value for name, value in thing.items() if name != "name"}
            path = f"/v1/ns/acme/{kind}/{thing['name']}"
            made = acme.put(path, json.dumps(settings), content_type=JSON)
            assert made.status_code == 201, made.content
    document = acme.get(PATH).content
    rival = api(people.rival_key)

    done = rival.post("/v1/ns/rival/definitions:import", document, content_type=JSON)

    assert done.status_code == 200, done.content
    counts = {name: done.json()[name] for name in ("created", "changed", "unchanged")}
    assert counts == {"created": len(TOPICS) + len(GROUPS), "changed": 0, "unchanged": 0}
    assert rival.get("/v1/ns/rival/definitions").content == document
    told_apart = ("id", "namespace", "created_at", "updated_at")
    columns = [field.name for field in ConsumerGroup._meta.concrete_fields]
    columns = [name for name in columns if name not in told_apart]
    own, others = (
        list(ConsumerGroup.objects.filter(namespace__name=ns).order_by("name").values(*columns))
        for ns in ("acme", "rival")
    )
    assert own == others
    again = acme.post(f"{PATH}:import", document, content_type=JSON).json()
    assert (again["unchanged"], again["changed"], again["created"]) == (10, 0, 0)


def test_an_export_is_in_the_order_of_names_and_says_nothing_of_time_or_place(
    engine: str, acme: Client
) -> None:
    for name in ("b", "a"):
        acme.put(f"/v1/ns/acme/topics/{name}")
    assert acme.get(PATH).json() == {
        "version": 2,
        "topics": [
            {
                "name": name, "type": "mixed", "queues": 4, "durability": "sync",
                "retention": "3d", "body_bytes_max": 4_194_304,
            }
            for name in ("a", "b")
        ],
        "groups": [],
    }  # fmt: skip


def test_an_export_of_some_names_takes_signs_as_they_are(engine: str, acme: Client) -> None:
    for name in ("or_ders", "orXders", "billing"):
        acme.put(f"/v1/ns/acme/topics/{name}")
        acme.put(f"/v1/ns/acme/groups/{name}")
    found = acme.get(PATH, {"prefix": "or_"}).json()
    assert [each["name"] for each in found["topics"]] == ["or_ders"]
    assert [each["name"] for each in found["groups"]] == ["or_ders"]


def test_more_than_a_document_holds_is_exported_in_parts(
    engine: str, acme: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "DEFINITION_COUNT_MAX", 3)
    for name in ("a1", "a2"):
        acme.put(f"/v1/ns/acme/topics/{name}")
        acme.put(f"/v1/ns/acme/groups/{name}")
    refused = acme.get(PATH)
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    assert refused.json()["errors"][0]["pointer"] == "?prefix"
    assert len(acme.get(PATH, {"prefix": "a1"}).json()["topics"]) == 1


def test_a_paused_group_is_neither_told_nor_let_go(engine: str, acme: Client) -> None:
    acme.put("/v1/ns/acme/groups/billing")
    acme.post("/v1/ns/acme/groups/billing:pause")
    document = acme.get(PATH).json()
    assert "paused" not in document["groups"][0]
    document["groups"][0]["lease"] = "2m"
    assert acme.post(f"{PATH}:import", document, content_type=JSON).status_code == 200
    group = acme.get("/v1/ns/acme/groups/billing").json()
    assert (group["lease"], group["paused"]) == ("2m", True)


@pytest.mark.parametrize(
    ("document", "code", "pointers"),
    [
        ("{}", "BAD_REQUEST", ["/version"]),
        ("[]", "BAD_REQUEST", [""]),
        ("{", "BAD_REQUEST", [""]),
        ({"version": 0}, "ILLEGAL_SETTING", ["/version"]),
        ({"version": 3}, "ILLEGAL_SETTING", ["/version"]),
        ({"version": True}, "BAD_REQUEST", ["/version"]),
        ({"version": 1, "queues": []}, "BAD_REQUEST", ["/queues"]),
        ({"version": 1, "topics": {}}, "BAD_REQUEST", ["/topics"]),
        (topics(None, []), "BAD_REQUEST", ["/topics/0", "/topics/1"]),
        (topics({}), "BAD_REQUEST", ["/topics/0/name"]),
        (topics({"name": 7}), "BAD_REQUEST", ["/topics/0/name"]),
        (topics({"name": "a b"}), "ILLEGAL_TOPIC", ["/topics/0/name"]),
        (topics({"name": "TBW102"}), "ILLEGAL_TOPIC", ["/topics/0/name"]),
        (groups({"name": "a%b"}), "ILLEGAL_GROUP", ["/groups/0/name"]),
        (groups({"name": "g", "paused": True}), "BAD_REQUEST", ["/groups/0/paused"]),
        (topics({"name": "a/b", "x/y": 1}), "BAD_REQUEST", ["/topics/0/name", "/topics/0/x~1y"]),
        (topics({"name": "t"}, {"name": "u"}, {"name": "t"}), "BAD_REQUEST", ["/topics/2/name"]),
        (topics({"name": "t", "queues": 257}), "ILLEGAL_SETTING", ["/topics/0/queues"]),
        (topics({"name": "t", "retention": "31d"}), "ILLEGAL_SETTING", ["/topics/0/retention"]),
        (
            topics({"name": "t", "type": "lite", "queues": 1.5}),
            "BAD_REQUEST",
            ["/topics/0/type", "/topics/0/queues"],
        ),
        (groups({"name": "g", "lease": "1h", "lease_ms": 1}), "BAD_REQUEST", ["/groups/0/lease"]),
        (
            groups({"name": "g", "retry": {"policy": "list", "delays": []}}),
            "ILLEGAL_SETTING",
            ["/groups/0/retry/delays"],
        ),
    ],
)
def test_faults_are_reported_with_their_places(
    document: Json | str, code: str, pointers: list[str]
) -> None:
    body = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(Problem) as caught:
        read_document(body.encode())
    assert caught.value.code == code
    assert [item.pointer for item in caught.value.errors] == pointers


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"version": 1, "topics": [{"name": "a"}], "topics": []}', '"topics" is given twice'),
        (
            '{"version": 1, "groups": [{"name": "g", "lease": "1m", "lease": "2m"}]}',
            '"lease" is given twice, in "g"',
        ),
        ('{"version": 1, "version": 1, "topics": [1%s]}' % ("0" * 400), '"version" is given'),
    ],
    ids=["lists", "settings", "digits"],
)
def test_a_field_that_is_there_twice_is_a_fault(body: str, told: str) -> None:
    with pytest.raises(Problem) as caught:
        read_document(body.encode())
    assert caught.value.code == "BAD_REQUEST"
    assert told in caught.value.detail


@pytest.mark.parametrize(
    "body", ["", "null", " \n", "[" * 100_000, '{"a":' * 100_000, "[" * 600 + "]" * 600]
)
def test_what_is_no_document_is_refused_in_few_words(body: str) -> None:
    with pytest.raises(Problem) as caught:
        read_document(body.encode())
    assert caught.value.code == "BAD_REQUEST"


def test_of_many_faults_the_first_are_reported_and_their_number() -> None:
    topics = [{"name": f"t{at}", "queues": 0} for at in range(500)]
    with pytest.raises(Problem) as caught:
        read_document(json.dumps({"version": 1, "topics": topics}).encode())
    assert len(caught.value.errors) == 20
    assert caught.value.detail.endswith("this is the first of 500 errors")


@pytest.mark.parametrize(("topics", "groups"), [(4, 0), (0, 4), (2, 2)])
def test_more_than_a_document_may_hold_is_refused(
    topics: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "DEFINITION_COUNT_MAX", 3)
    content = {
        "version": 1,
        "topics": [{"name": f"n{at}"} for at in range(topics)],
        "groups": [{"name": f"n{at}"} for at in range(groups)],
    }
    with pytest.raises(Problem) as caught:
        read_document(json.dumps(content).encode())
    assert caught.value.code == "ILLEGAL_SETTING"
    assert "at most 3 topics and groups, found 4" in caught.value.detail


def test_a_body_beyond_a_mebibyte_is_refused(engine: str, acme: Client) -> None:
    body = json.dumps({"version": 1, "topics": []}) + " " * (1 << 20)
    answer = acme.post(f"{PATH}:import", body, content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert not Topic.objects.exists()
