"""Replicated topics in the control plane: where they can be made, and where they are default."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.store import Durability, blocking_client
from mqservice.topics.models import Topic
from tests.engine import running_engine
from tests.people import People

JSON = "application/json"
TOPICS = "/v1/ns/acme/topics"
NEW_TOPIC = "/console/acme/new-topic"


@pytest.fixture
def replicated_engine(tmp_path: Path, settings: Settings) -> Iterator[None]:
    """The service finds an engine with a log, and knows that there is one."""
    (tmp_path / "log").mkdir()
    log = (tmp_path / "log").as_uri()
    with running_engine({"MQ_ENGINE_REPLICATED_LOG": log}) as socket:
        settings.MQ_ENGINE_SOCKET = socket
        settings.MQ_REPLICATED_LOG = True
        yield


def durabilities() -> dict[str, Durability]:
    """As the engine knows them."""
    with blocking_client(MAIN_SHARD) as client:
        return {each.topic: each.durability for each in client.topic_list().topics}


def test_new_topics_are_replicated_unless_they_say_otherwise(
    replicated_engine: None, acme: Client
) -> None:
    made = acme.put(f"{TOPICS}/a")
    other = acme.put(f"{TOPICS}/b", '{"durability": "sync"}', content_type=JSON)
    assert (made.json()["durability"], other.json()["durability"]) == ("replicated", "sync")
    assert durabilities() == {"acme%a": Durability.REPLICATED, "acme%b": Durability.SYNC}
    changed = acme.put(f"{TOPICS}/b", '{"queues": 5}', content_type=JSON)
    assert changed.json()["durability"] == "sync"
    exported = acme.get("/v1/ns/acme/definitions").json()["topics"]
    assert [each["durability"] for each in exported] == ["replicated", "sync"]


def test_without_a_log_a_replicated_topic_is_refused_by_its_setting(
    engine: str, acme: Client
) -> None:
    body = '{"durability": "replicated"}'
    refused = acme.put(f"{TOPICS}/a", body, content_type=JSON)
    assert refused.status_code == 400
    problem = refused.json()
    assert (problem["code"], problem["errors"][0]["pointer"]) == ("ILLEGAL_SETTING", "/durability")
    assert "MQ_REPLICATED_LOG" in problem["detail"]
    assert not Topic.objects.exists()

    document = {"version": 1, "topics": [{"name": "a", "durability": "replicated"}], "groups": []}
    refused = acme.post("/v1/ns/acme/definitions:import", json.dumps(document), content_type=JSON)
    assert refused.status_code == 400
    problem = refused.json()
    pointers = [each["pointer"] for each in problem["errors"]]
    assert (problem["code"], pointers) == ("ILLEGAL_SETTING", ["/topics/0/durability"])
    assert "MQ_REPLICATED_LOG" in problem["detail"]
    assert not Topic.objects.exists()


def test_the_form_offers_it_where_there_is_a_log(
    people: People, alice: Client, settings: Settings
) -> None:
    assert "replicated:" not in alice.get(NEW_TOPIC).content.decode()
    Topic.objects.create(namespace=people.acme, name="kept", durability="replicated")
    chosen = '<option value="replicated" selected>'
    assert chosen in alice.get("/console/acme/topics/kept/edit").content.decode()
    settings.MQ_REPLICATED_LOG = True
    assert chosen in alice.get(NEW_TOPIC).content.decode()
    Topic.objects.create(namespace=people.acme, name="orders", durability="sync")
    shown = alice.get("/console/acme/topics/orders/edit").content.decode()
    assert '<option value="replicated">' in shown
