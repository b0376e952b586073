"""Definitions as YAML: what is exported is imported, and faults say in which line they are."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.lib.yaml_text import read_yaml
from mqservice.topics.models import Topic
from tests.people import People

PATH = "/v1/ns/acme/definitions"
YAML = "application/yaml"
GROUPS: dict[str, dict[str, object]] = {
    "017": {"max_attempts": None, "retry": {"policy": "list", "delays": ["10s", "1m"]}},
    "late": {"start_from": "timestamp", "start_time": "2026-11-21T09:00:00.001Z"},
    "no": {
        "dispatch": "exclusive", "strategy": "CONFIG", "ordered": True,
        "assignment": {"consumers": {"on": [0, 1], "1_0": [2], "y": [3]}},
    },
}  # fmt: skip


def test_yaml_that_is_exported_is_imported_elsewhere_without_a_loss(
    engine: str, people: People, api: Callable[[str], Client], acme: Client
) -> None:
    assert acme.put("/v1/ns/acme/topics/1e3").status_code == 201
    for name, settings in GROUPS.items():
        path = f"/v1/ns/acme/groups/{name}"
        made = acme.put(path, json.dumps(settings), content_type="application/json")
        assert made.status_code == 201, made.content
    exported = acme.get(PATH, headers={"accept": YAML})
    rival = api(people.rival_key)

    done = rival.post(
        "/v1/ns/rival/definitions:import", exported.content, content_type=f"{YAML}; charset=utf-8"
    )

    assert exported["Content-Type"] == YAML
    assert read_yaml(exported.content) == acme.get(PATH).json()
    assert (done.status_code, done.json()["created"]) == (200, 4), done.content
    assert rival.get("/v1/ns/rival/definitions").content == acme.get(PATH).content
    again = acme.post(f"{PATH}:import", exported.content, content_type="text/x-yaml").json()
    assert (again["unchanged"], again["changed"], again["created"]) == (4, 0, 0)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"), ("text/html", "application/json"),
        ("application/x-yaml", YAML), ("application/json;q=0.4, application/yaml;q=0.5", YAML),
    ],
)  # fmt: skip
def test_json_is_answered_unless_yaml_is_rather_had(
    engine: str, acme: Client, accept: str, kind: str
) -> None:
    answer = acme.get(PATH, headers={"accept": accept})
    assert (answer.status_code, answer["Content-Type"].partition(";")[0]) == (200, kind)


def test_each_fault_of_yaml_has_its_line_and_column(engine: str, acme: Client) -> None:
    text = (
        "version: 1\n"
        "topics:\n"
        "  - name: fine\n"
        "  - name: also/fine\n"
        "    queues: yards\n"
        "    color: red\n"
        "groups:\n"
        "  - {name: billing, lease: 1y}\n"
    )
    answer = acme.post(f"{PATH}:import", text, content_type=YAML)
    assert answer.status_code == 400
    told = {item["pointer"]: item["detail"] for item in answer.json()["errors"]}
    places = {pointer: detail.partition(":")[0] for pointer, detail in told.items()}
    assert places == {
        "/topics/1/name": "line 4, column 5",
        "/topics/1/queues": "line 5, column 5",
        "/topics/1/color": "line 6, column 5",
        "/groups/0/lease": "line 8, column 21",
    }
    assert answer.json()["detail"].startswith("line 4, column 5: /topics/1/name: ")
    assert not Topic.objects.exists()


def test_what_the_settings_there_do_not_allow_is_reported_by_line_too(
    engine: str, acme: Client
) -> None:
    acme.put("/v1/ns/acme/topics/orders", json.dumps({"queues": 8}), "application/json")
    text = "version: 1\ntopics:\n- name: orders\n  queues: 2\n"
    answer = acme.post(f"{PATH}:import", text, content_type=YAML)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"].startswith("line 4, column 3: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "/version: is missing; must be in [1, 2]"),
        ("- version: 1", "the body must be an object"),
        ("version: 1\ntopics: []\ntopics: []", 'line 3, column 1: "topics" was already given'),
        ("version: 1\na: &x [1]\nb: *x", "line 2, column 4: &x is an anchor"),
        ("version: !!python/name:os.system x", "line 1, column 10: "),
    ],
)
def test_what_is_no_document_is_refused(engine: str, acme: Client, text: str, told: str) -> None:
    answer = acme.post(f"{PATH}:import", text, content_type=YAML)
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
    assert told in answer.json()["detail"]


def test_yaml_that_is_said_to_be_json_is_refused(engine: str, acme: Client) -> None:
    answer = acme.post(f"{PATH}:import", "version: 1", content_type="application/json")
    assert (answer.status_code, answer.json()["detail"]) == (400, "the body is not valid JSON")
