"""Pausing, resuming and deleting groups, and deleting topics, over REST and the real engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import (
    GroupNotFound,
    GroupRef,
    Received,
    ReceiveRequest,
    StoreMessage,
    TopicNotFound,
    TopicRef,
    blocking_client,
    encode_record,
    new_message_id,
)
from mqservice.topics.models import Topic
from tests.people import People

Api = Callable[[str], Client]
GROUP = "/v1/ns/acme/groups/"
TOPIC = "/v1/ns/acme/topics/"
WAIT_S = 30


def begin(client: Client, name: str, *bodies: bytes) -> None:
    """A topic and a group of that name, and messages."""
    client.put(TOPIC + name, data='{"queues": 1}', content_type="application/json")
    client.put(GROUP + name)
    put(name, *bodies)


def put(name: str, *bodies: bytes) -> None:
    messages = [
        StoreMessage(
            topic=f"acme%{name}", queue_id=0, body=body, tag=None, keys=[], message_group=None,
            properties={}, born_timestamp_ms=1, born_host=("127.0.0.1", 1),
            message_id=new_message_id(),
        )
        for body in bodies
    ]  # fmt: skip
    if messages:
        with blocking_client(MAIN_SHARD) as client:
            client.put([encode_record(message) for message in messages])


def receive(name: str, wait_ms: int = 0) -> list[bytes]:
    request = ReceiveRequest(
        group=f"acme%{name}", topic=f"acme%{name}", member_id="m", messages_max=8,
        bytes_max=1_000_000, wait_ms=wait_ms, lease_ms=60_000,
    )  # fmt: skip
    with blocking_client(MAIN_SHARD) as client:
        received: Received = client.receive(request)
    return [record.body for record in received.records]


class Waiting:
    """A receive that waits on a thread of its own."""

    def __init__(self, name: str) -> None:
        self.bodies: list[bytes] = []
        self.error: Exception | None = None
        self._name = name
        with blocking_client(MAIN_SHARD) as client:
            parked_count = client.stats().parked_count
            self._thread = threading.Thread(target=self._run)
            self._thread.start()
            while client.stats().parked_count == parked_count:
                pass

    def _run(self) -> None:
        try:
            self.bodies = receive(self._name, wait_ms=WAIT_S * 1_000)
        except Exception as exc:  # whatever it is, the test looks at it
            self.error = exc

    def join(self) -> None:
        self._thread.join(WAIT_S / 2)  # less than it would wait by itself
        assert not self._thread.is_alive()


# Pause --------------------------------------------------------------------------------------------


def test_a_paused_group_gets_nothing_until_it_is_resumed(engine: str, acme: Client) -> None:
    begin(acme, "paused", b"a")
    response = acme.post(GROUP + "paused:pause")
    assert (response.status_code, response.json()["paused"]) == (200, True)
    assert receive("paused") == []
    waiting = Waiting("paused")
    response = acme.post(GROUP + "paused:resume")
    assert (response.status_code, response.json()["paused"]) == (200, False)
    waiting.join()
    assert waiting.bodies == [b"a"]


def test_pausing_is_shown_and_counts_once(engine: str, acme: Client) -> None:
    acme.put(GROUP + "twice")
    assert acme.get(GROUP + "twice").json()["paused"] is False
    assert acme.post(GROUP + "twice:pause")["ETag"] == '"2"'
    assert acme.post(GROUP + "twice:pause")["ETag"] == '"2"'
    assert acme.get(GROUP + "twice").json()["paused"] is True
    assert acme.put(GROUP + "twice").json()["paused"] is True
    assert acme.post(GROUP + "twice:resume")["ETag"] == '"3"'
    assert acme.post(GROUP + "twice:resume")["ETag"] == '"3"'


def test_pausing_under_an_old_etag_is_refused(engine: str, acme: Client) -> None:
    acme.put(GROUP + "guarded")
    response = acme.post(GROUP + "guarded:pause", headers={"if-match": '"2"'})
    assert (response.status_code, response.json()["code"]) == (412, "PRECONDITION_FAILED")
    assert not ConsumerGroup.objects.get(name="guarded").is_paused


def test_nothing_is_paused_while_the_engine_is_unavailable(people: People, acme: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="away")
    response = acme.post(GROUP + "away:pause")
    assert (response.status_code, response.json()["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert not ConsumerGroup.objects.get(name="away").is_paused


# Delete -------------------------------------------------------------------------------------------


def test_a_deleted_group_is_gone_and_one_made_again_starts_over(engine: str, acme: Client) -> None:
    begin(acme, "gone", b"a", b"b")
    assert receive("gone") == [b"a", b"b"]
    waiting = Waiting("gone")
    response = acme.delete(GROUP + "gone")
    assert (response.status_code, response.content) == (204, b"")
    waiting.join()
    assert isinstance(waiting.error, GroupNotFound)
    assert acme.get(GROUP + "gone").status_code == 404
    with blocking_client(MAIN_SHARD) as client, pytest.raises(GroupNotFound):
        client.group_stats(GroupRef(group="acme%gone"))
    again = acme.delete(GROUP + "gone")
    assert (again.status_code, again.json()["code"]) == (404, "GROUP_NOT_FOUND")
    assert acme.put(GROUP + "gone").status_code == 201
    assert receive("gone") == [b"a", b"b"]


def test_a_deleted_topic_is_gone_and_one_made_again_is_empty(engine: str, acme: Client) -> None:
    begin(acme, "emptied", b"old")
    assert receive("emptied") == [b"old"]
    waiting = Waiting("emptied")
    assert acme.delete(TOPIC + "emptied").status_code == 204
    waiting.join()
    assert isinstance(waiting.error, TopicNotFound)
    assert acme.get(TOPIC + "emptied").status_code == 404
    with blocking_client(MAIN_SHARD) as client, pytest.raises(TopicNotFound):
        client.topic_stats(TopicRef(topic="acme%emptied"))
    assert acme.delete(TOPIC + "emptied").json()["code"] == "TOPIC_NOT_FOUND"
    begin(acme, "emptied")
    assert receive("emptied") == []
    put("emptied", b"new")
    assert receive("emptied") == [b"new"]
    assert acme.get(GROUP + "emptied").json()["lag"]["total"] == 1


@pytest.mark.parametrize("path", [GROUP, TOPIC])
def test_deleting_under_an_old_etag_is_refused(engine: str, acme: Client, path: str) -> None:
    acme.put(path + "kept")
    response = acme.delete(path + "kept", headers={"if-match": '"2"'})
    assert (response.status_code, response.json()["code"]) == (412, "PRECONDITION_FAILED")
    assert acme.delete(path + "kept", headers={"if-match": '"1"'}).status_code == 204


@pytest.mark.parametrize("path", [GROUP, TOPIC])
def test_nothing_is_deleted_while_the_engine_is_unavailable(
    engine: str, acme: Client, settings: Settings, path: str
) -> None:
    acme.put(path + "kept")
    settings.MQ_ENGINE_SOCKET = "/nonexistent/engine.sock"
    assert acme.delete(path + "kept").json()["code"] == "ENGINE_UNAVAILABLE"
    assert acme.get(path + "kept").status_code == 200


def test_the_same_call_finishes_what_a_crash_before_the_commit_left(
    engine: str, acme: Client
) -> None:
    begin(acme, "crashed")
    with blocking_client(MAIN_SHARD) as client:
        client.group_delete(GroupRef(group="acme%crashed"))
        client.topic_delete(TopicRef(topic="acme%crashed"))
    assert acme.delete(GROUP + "crashed").status_code == 204
    assert acme.delete(TOPIC + "crashed").status_code == 204
    assert not ConsumerGroup.objects.exists()
    assert not Topic.objects.exists()


# Whose --------------------------------------------------------------------------------------------


def test_what_belongs_to_others_looks_absent_and_stays(people: People, acme: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.rival, name="secret")
    Topic.objects.create(namespace=people.rival, name="secret")
    for verb in ("pause", "resume"):
        for ns, code in (("rival", "NAMESPACE_NOT_FOUND"), ("acme", "GROUP_NOT_FOUND")):
            response = acme.post(f"/v1/ns/{ns}/groups/secret:{verb}")
            assert (response.status_code, response.json()["code"]) == (404, code)
    for kind, code in (("groups", "GROUP_NOT_FOUND"), ("topics", "TOPIC_NOT_FOUND")):
        foreign = acme.delete(f"/v1/ns/rival/{kind}/secret")
        assert (foreign.status_code, foreign.json()["code"]) == (404, "NAMESPACE_NOT_FOUND")
        own = acme.delete(f"/v1/ns/acme/{kind}/secret")
        assert (own.status_code, own.json()["code"]) == (404, code)
    assert not ConsumerGroup.objects.get(name="secret").is_paused
    assert Topic.objects.filter(name="secret").exists()


def test_a_key_without_manage_may_not_change_anything(people: People, api: Api) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    Topic.objects.create(namespace=people.acme, name="billing")
    reader = api(people.acme_reader_key)
    for response in (
        reader.post(GROUP + "billing:pause"),
        reader.post(GROUP + "billing:resume"),
        reader.delete(GROUP + "billing"),
        reader.delete(TOPIC + "billing"),
    ):
        assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")
    assert ConsumerGroup.objects.filter(name="billing").exists()
