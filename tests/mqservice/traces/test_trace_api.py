"""The road of a message over REST, on a real engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from django.test import Client

from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key
from mqservice.store import Nack, SettleRequest, StoreClient, TraceReply, TraceRequest
from mqservice.traces import queries
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.groups.reading import Reader
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)
Json = dict[str, Any]  # reason: answers are looked into by tests, field by field
MESSAGES = "/v1/ns/acme/messages"


@pytest.fixture
def reader(engine: str, acme: Client) -> Iterator[Reader]:
    with StoreClient(engine, client_name="test") as store:
        yield Reader(acme, store)


def nack(reader: Reader, **how: Any) -> str:
    """Receive one message and give it back; its id."""
    received = reader.receive(1, wait_ms=30_000)
    [record] = received.records
    give_back = Nack(
        topic=record.topic,
        queue_id=record.queue_id,
        lease_generation=received.head.lease_generation,
        queue_offset=record.queue_offset,
        **how,
    )
    reply = reader.store.settle(SettleRequest(group=f"acme%{reader.group}", nacks=[give_back]))
    assert not reply.failures
    return record.message_id


def trace(client: Client, message_id: str, query: str = "") -> Json:
    response = client.get(f"{MESSAGES}/{message_id}/trace{query}")
    assert response.status_code == 200, response.content
    answer: Json = response.json()
    return answer


def state(client: Client, message_id: str) -> str:
    [group] = trace(client, message_id)["groups"]
    found: str = group["state"]
    return found


def test_a_message_that_fails_and_is_redriven_has_its_whole_road(
    acme: Client, reader: Reader
) -> None:
    settings = msgspec.json.encode({"max_attempts": 3})
    acme.put(reader.path, data=settings, content_type="application/json")
    reader.put(1)
    message_id = nack(reader, delay_ms=0, reason="db down")
    assert nack(reader, delay_ms=300, reason="db down again") == message_id
    assert nack(reader, delay_ms=0, reason="bad schema") == message_id
    wait_until(lambda: state(acme, message_id) == "dead")

    found = trace(acme, message_id)

    assert (found["id"], found["is_complete"]) == (message_id, True)
    events = found["events"]
    assert [each["event"] for each in events] == [
        "born", "stored", "delivery_failed", "ready_again", "delivery_failed", "ready_again",
        "dead_lettered",
    ]  # fmt: skip
    stored, first, _, second, _, dead = events[1:]
    assert (stored["topic"], stored["queue"], stored["offset"]) == (reader.topic, 0, 0)
    told = [(each["attempt"], each["reason"]) for each in (first, second, dead)]
    assert told == [(1, "db down"), (2, "db down again"), (3, "bad schema")]
    for failure in (first, second, dead):
        assert (failure["group"], failure["topic"]) == (reader.group, reader.topic)
        assert failure["consumer"] == "m"
        assert failure["delivered_at"] <= failure["at"]
    assert first["due_at"] == first["at"]
    assert second["due_at"] > second["at"]
    [group] = found["groups"]
    assert group == {
        "group": reader.group, "topic": reader.topic, "state": "dead", "attempts": 3,
        "consumer": None, "lease_until": None, "due_at": None, "client_id": None,
    }  # fmt: skip
    times = [each["at"] for each in events[1:]]
    assert times == sorted(times)


def test_a_leased_message_says_who_has_it_and_until_when(acme: Client, reader: Reader) -> None:
    reader.put(1)
    received = reader.receive(1)

    [group] = trace(acme, received.records[0].message_id)["groups"]

    assert (group["state"], group["consumer"], group["attempts"]) == ("in_flight", "m", 1)
    assert group["lease_until"].endswith("Z")
    assert group["due_at"] is None


def test_topic_and_group_narrow_the_answer(acme: Client, reader: Reader) -> None:
    other = Reader(acme, reader.store)
    reader.put(1)
    message_id = nack(reader, delay_ms=60_000)
    wait_until(lambda: state(acme, message_id) == "scheduled")

    assert trace(acme, message_id, f"?topic={reader.topic}") == trace(acme, message_id)
    assert trace(acme, message_id, f"?group={other.group}")["groups"] == []
    absent = acme.get(f"{MESSAGES}/{message_id}/trace?topic={other.topic}")
    assert (absent.status_code, absent.json()["code"]) == (404, "MESSAGE_NOT_FOUND")


def test_others_see_nothing_of_it(
    people: People, api: Callable[[str], Client], acme: Client, reader: Reader
) -> None:
    reader.put(1)
    message_id = nack(reader, delay_ms=60_000)
    rival = api(people.rival_key)

    for path, code in (
        (f"/v1/ns/rival/messages/{message_id}/trace", "MESSAGE_NOT_FOUND"),
        (f"/v1/-/messages/{message_id}/trace", "NOT_FOUND"),
        (f"{MESSAGES}/{message_id}/trace", "NAMESPACE_NOT_FOUND"),
        (f"/v1/ns/rival/messages/{message_id}/trace?topic={reader.topic}", "TOPIC_NOT_FOUND"),
        (f"/v1/ns/rival/messages/{message_id}/trace?group={reader.group}", "GROUP_NOT_FOUND"),
    ):
        response = rival.get(path)
        assert (response.status_code, response.json()["code"]) == (404, code), path


def test_ids_that_nobody_has(acme: Client, reader: Reader) -> None:
    for message_id, status in (("0" * 34, 404), ("x" * 255, 404), ("x" * 256, 400), ("%00", 404)):
        assert acme.get(f"{MESSAGES}/{message_id}/trace").status_code == status, message_id


class Endless:
    """An engine whose namespace has more topics than anybody can look through."""

    def __enter__(self) -> Endless:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def trace(self, request: TraceRequest) -> TraceReply:
        return TraceReply(after=f"{request.after}x")


def test_a_namespace_that_was_not_looked_through_is_not_said_to_have_nothing(
    people: People, acme: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "blocking_client", lambda shard: Endless())
    problem = acme.get(f"{MESSAGES}/{'0' * 34}/trace").json()
    assert (problem["code"], problem["retryable"]) == ("MESSAGE_NOT_FOUND", True)
    assert "not all messages could be searched" in problem["detail"]


def test_a_key_that_may_not_consume_may_not_look(
    people: People, api: Callable[[str], Client]
) -> None:
    key = create_api_key(
        people.acme.tenant, name="producer", scopes=[Scope.PRODUCE], namespace=people.acme
    )[1]
    response = api(key).get(f"{MESSAGES}/{'0' * 34}/trace")
    assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")
