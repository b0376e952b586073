"""Seeks, commits and lag over REST on a real engine: what they do, and each way to be refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from django.db import DatabaseError, transaction
from django.test import Client

from mqservice.accounts import audit
from mqservice.accounts.access import Principal
from mqservice.accounts.models import ApiKey, AuditEntry
from mqservice.accounts.session_access import find_session_principal
from mqservice.groups import offsets
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from mqservice.store import (
    Nack,
    OutcomeUnknown,
    ResetTo,
    SettleRequest,
    StoreClient,
    blocking_client,
)
from mqservice.topics.models import Topic
from tests.mqservice.groups.reading import Json, Reader
from tests.people import People

Api = Callable[[str], Client]


def test_offsets_of_a_topic_that_nobody_reads_are_null(acme: Client, store: StoreClient) -> None:
    base = "/v1/ns/acme"
    for path, settings in (("topics/unread", {"queues": 2}), ("groups/idle", {})):
        made = acme.put(f"{base}/{path}", settings, content_type="application/json")
        assert made.status_code == 201, made.content
    answer = acme.get(f"{base}/groups/idle/offsets?topic=unread").json()
    row = {"topic": "unread", "min_offset": 0, "max_offset": 0, "consumer_offset": None}
    assert answer["offsets"] == [{**row, "queue": 0}, {**row, "queue": 1}]
    assert acme.get(f"{base}/groups/idle/offsets").json()["offsets"] == []


def test_a_dry_run_shows_what_a_seek_then_does(reader: Reader) -> None:
    preview = reader.seek("latest", dry_run=True)
    assert preview["dry_run"] is True
    assert reader.consumer_offsets() == [1, 0]
    assert not AuditEntry.objects.filter(action="group.seek").exists()

    done = reader.seek("latest")

    assert {**done, "dry_run": True} == preview
    assert (done["skipped"], done["replayed"]) == (6, 0)
    assert done["queues"][0] == {
        "queue": 0,
        "min_offset": 0,
        "max_offset": 5,
        "from_offset": 1,
        "to_offset": 5,
        "skipped": 4,
        "replayed": 0,
        "inflight": 0,
    }
    assert reader.consumer_offsets() == [5, 2]
    assert reader.receive().records == []


def test_every_seek_is_written_down_with_who_and_from_where_to_where(
    people: People, reader: Reader
) -> None:
    reader.seek("earliest", queues=[0])
    entry = AuditEntry.objects.get(action="group.seek")
    assert (entry.tenant, entry.namespace) == (people.acme.tenant, "acme")
    assert entry.actor == f"key:{ApiKey.objects.get(name='all', tenant=entry.tenant).public_id}"
    assert (entry.action, entry.target) == ("group.seek", f"groups/{reader.group}")
    assert entry.outcome == "done"
    assert entry.request_id
    assert entry.details == {
        "topic": reader.topic,
        "to": "earliest",
        "value": 0,
        "queues": [{"queue": 0, "from": 1, "to": 0}],
    }
    for change in (lambda: entry.save(), lambda: entry.delete()):
        with pytest.raises(DatabaseError, match="only ever added"), transaction.atomic():
            change()


def test_a_seek_leads_to_a_time_or_to_an_offset_of_one_queue(reader: Reader) -> None:
    reader.seek({"offset": 3, "queue": 0})
    assert reader.consumer_offsets() == [3, 0]
    oldest = reader.lag()["topics"][0]["queues"][0]["oldest_stored_at"]
    reader.seek({"time": oldest})
    assert reader.consumer_offsets() == [0, 0]  # they were stored in one millisecond
    reader.seek({"time": rfc3339(parse_rfc3339(oldest) + 3_600_000)}, queues=[0])
    assert reader.consumer_offsets() == [5, 0]


def test_a_seek_of_a_group_that_has_just_been_deleted_is_refused(
    people: People, reader: Reader
) -> None:
    row = ConsumerGroup.objects.select_related("namespace").get(name=reader.group)
    topic = Topic.objects.select_related("namespace").get(name=reader.topic)
    assert reader.client.delete(reader.path).status_code == 204
    with pytest.raises(Problem) as caught:
        offsets.seek(principal_of(people), row, topic, offsets.SeekTarget(to=ResetTo.LATEST))
    assert caught.value.code == "GROUP_NOT_FOUND"


def principal_of(people: People) -> Principal:
    found = find_session_principal(people.alice, people.acme)
    assert found is not None
    return found


def test_a_group_that_never_read_the_topic_begins_there(acme: Client, store: StoreClient) -> None:
    reader = Reader(acme, store)
    reader.put(3)
    preview = reader.seek({"offset": 2, "queue": 0}, dry_run=True)
    assert preview["queues"][0]["from_offset"] is None
    assert (preview["skipped"], preview["replayed"]) == (None, None)
    assert reader.consumer_offsets() == []
    reader.seek({"offset": 2, "queue": 0})
    assert [record.body for record in reader.receive().records] == [b"2"]


def test_a_seek_while_others_receive_redelivers_exactly_from_there(
    acme: Client, store: StoreClient, engine: str
) -> None:
    # Given two members that hold half of the messages and have settled some
    reader = Reader(acme, store, queues=2)
    reader.put(50)
    reader.put(50, queue_id=1)
    held = reader.receive(40)
    reader.ack(reader.receive(20))
    with ThreadPoolExecutor(2) as members:
        waiting = []
        has_sought = threading.Event()
        reader.receive(100)
        for _ in range(2):
            waiting.append(members.submit(_receive_all, reader, has_sought))
        # When the group seeks while both wait
        done = reader.seek({"offset": 30, "queue": 0})
        reader.seek({"offset": 45, "queue": 1})
        has_sought.set()
        delivered = [place for member in waiting for place in member.result(60)]
    # Then old receipts are void, and everything from there on has come once
    assert done["queues"][0]["inflight"] > 0
    assert len(reader.ack(held).failures) == len(held.records)
    assert sorted(delivered) == [(0, at) for at in range(30, 50)] + [
        (1, at) for at in range(45, 50)
    ]
    assert reader.lag()["lag"] == 0


def _receive_all(reader: Reader, is_last: threading.Event) -> list[tuple[int, int]]:
    """Receive and settle until nothing more comes; the places of all of it.

    Nothing more counts only from ``is_last`` on.
    """
    places: list[tuple[int, int]] = []
    with blocking_client(MAIN_SHARD) as client:
        own = Reader.__new__(Reader)
        own.__dict__.update(reader.__dict__, store=client)
        while True:
            is_over = is_last.is_set()
            received = own.receive(7, wait_ms=1_500)
            if received.records:
                assert own.ack(received).failures == []
            elif is_over:
                return places
            places += [(record.queue_id, record.queue_offset) for record in received.records]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"to": "middle"}, "/to"),
        ({"to": 5}, "/to"),
        ({"to": None}, "/to"),
        ({"to": {}}, "/to"),
        ({"to": {"offset": 1}}, "/to"),
        ({"to": {"time": "2026-11-21T09:00:00Z", "queue": 0}}, "/to"),
        ({"to": {"time": "yesterday"}}, "/to/time"),
        ({"to": {"time": 5}}, "/to/time"),
        ({"to": {"offset": -1, "queue": 0}}, "/to/offset"),
        ({"to": {"offset": True, "queue": 0}}, "/to/offset"),
        ({"to": {"offset": 1 << 63, "queue": 0}}, "/to/offset"),
        ({"to": {"offset": 6, "queue": 0}}, "/to/offset"),
        ({"to": {"offset": 1, "queue": 0}, "queues": [0]}, "/queues"),
        ({"to": "earliest", "queues": []}, "/queues"),
        ({"to": "earliest", "queues": [0, 0, 0]}, "/queues"),
        ({"to": "earliest", "queues": ["0"]}, "/queues/0"),
        ({"to": "earliest", "dry_run": "no"}, "/dry_run"),
        ({"to": "earliest", "force": True}, "/force"),
        ({"topic": 5, "to": "earliest"}, "/topic"),
        ({}, "/to"),
    ],
)
def test_a_bad_seek_is_refused_with_its_place(
    reader: Reader, body: dict[str, object], pointer: str
) -> None:
    for is_dry_run in (False, True):
        status, problem = reader.post(":seek", **{"dry_run": is_dry_run, **body})
        assert (status, problem["code"]) == (400, "BAD_REQUEST"), problem
        assert pointer in [item["pointer"] for item in problem["errors"]]
    assert reader.consumer_offsets() == [1, 0]
    assert not AuditEntry.objects.filter(action="group.seek").exists()


def test_a_queue_that_the_topic_does_not_have_is_reported_with_its_place(reader: Reader) -> None:
    asked: list[tuple[str, dict[str, object], str]] = [
        (":seek", {"to": {"offset": 1, "queue": 2}}, "/to/queue"),
        (":seek", {"to": "earliest", "queues": [0, 2]}, "/queues/1"),
        ("/offsets:commit", {"queue": 2, "offset": 0}, "/queue"),
    ]
    for path, body, pointer in asked:
        status, problem = reader.post(path, **body)
        assert (status, problem["code"]) == (404, "QUEUE_NOT_FOUND"), problem
        assert [item["pointer"] for item in problem["errors"]] == [pointer]
    assert reader.consumer_offsets() == [1, 0]


def test_a_commit_goes_forward_only(reader: Reader) -> None:
    status, committed = reader.post("/offsets:commit", queue=0, offset=4)
    assert (status, committed) == (
        200,
        {
            "topic": reader.topic,
            "queue": 0,
            "from_offset": 1,
            "to_offset": 4,
            "min_offset": 0,
            "max_offset": 5,
        },
    )
    assert reader.post("/offsets:commit", queue=0, offset=4)[0] == 200
    status, problem = reader.post("/offsets:commit", queue=0, offset=3)
    assert (status, problem["code"]) == (409, "CONFLICT")
    reader.receive()
    status, problem = reader.post("/offsets:commit", queue=0, offset=5)
    assert (status, problem["code"]) == (409, "CONFLICT")
    assert "in flight" in problem["detail"]
    assert reader.consumer_offsets() == [4, 0]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"queue": 0, "offset": 6}, "/offset"),
        ({"queue": 0, "offset": -1}, "/offset"),
        ({"queue": 0, "offset": 1 << 63}, "/offset"),
        ({"queue": 0, "offset": "3"}, "/offset"),
        ({"offset": 3}, "/queue"),
        ({"queue": 0, "offset": 3, "more": 1}, "/more"),
    ],
)
def test_a_bad_commit_is_refused_with_its_place(
    reader: Reader, body: dict[str, object], pointer: str
) -> None:
    status, problem = reader.post("/offsets:commit", **body)
    assert (status, problem["code"]) == (400, "BAD_REQUEST")
    assert [item["pointer"] for item in problem["errors"]] == [pointer]
    assert reader.consumer_offsets() == [1, 0]


def test_lag_tells_ready_in_flight_and_retries_apart(reader: Reader) -> None:
    received = reader.receive(2)
    nacks = [
        Nack(
            topic=record.topic, queue_id=record.queue_id, queue_offset=record.queue_offset,
            lease_generation=received.head.lease_generation, delay_ms=3_600_000,
        )
        for record in received.records[:1]
    ]  # fmt: skip
    reader.store.settle(SettleRequest(group=f"acme%{reader.group}", nacks=nacks))
    while (lag := reader.lag())["retry"]["scheduled"] != 1:
        assert lag["retry"] == {"waiting": 0, "scheduled": 0}
    [topic] = lag["topics"]
    assert (lag["ready"], lag["inflight"], lag["waiting_retry"]) == (4, 1, 1)
    assert (lag["lag"], lag["lag_is"]) == (6, "exact")
    assert (topic["topic"], topic["ready"], topic["inflight"]) == (reader.topic, 4, 1)
    assert topic["lag"] == topic["ready"] + topic["inflight"] + topic["waiting_retry"]
    assert topic["offset_lag"] == sum(queue["offset_lag"] for queue in topic["queues"])
    assert 0 <= topic["lag_ms"] <= 60_000
    assert lag["lag_ms"] >= topic["lag_ms"]
    assert topic["retry"] == {"waiting": 0, "scheduled": 1}


def test_messages_that_wait_for_their_retry_are_lag_and_have_an_age(reader: Reader) -> None:
    received = reader.receive(6)
    nacks = [
        Nack(
            topic=record.topic, queue_id=record.queue_id, queue_offset=record.queue_offset,
            lease_generation=received.head.lease_generation, delay_ms=3_600_000,
        )
        for record in received.records
    ]  # fmt: skip
    reader.store.settle(SettleRequest(group=f"acme%{reader.group}", nacks=nacks))
    count = len(nacks)
    while (lag := reader.lag())["retry"]["scheduled"] != count:
        assert lag["lag"] == 6
    assert (lag["lag"], lag["waiting_retry"], lag["inflight"]) == (6, count, 0)
    assert lag["lag_ms"] is not None


def test_lag_of_nothing_has_no_age(reader: Reader) -> None:
    reader.seek("latest")
    lag = reader.lag()
    assert (lag["lag"], lag["lag_ms"], lag["ready"], lag["inflight"]) == (0, None, 0, 0)
    assert [queue["lag_ms"] for queue in lag["topics"][0]["queues"]] == [None, None]


def test_what_nobody_knows_is_null(acme: Client, store: StoreClient) -> None:
    reader = Reader(acme, store)
    reader.put(3)
    nothing = {"waiting": None, "scheduled": None}
    names = ("lag", "lag_is", "lag_ms", "ready", "inflight", "waiting_retry", "offset_lag")
    unknown = {**dict.fromkeys(names), "retry": nothing}
    no_client = {"client_id": None, "clients": None, "dropped": None}
    assert reader.lag() == {"group": reader.group, **unknown, **no_client, "topics": []}
    lag = reader.lag(f"?topic={reader.topic}")
    assert lag["topics"] == [{"topic": reader.topic, **unknown, "queues": []}]
    assert lag["lag"] is None


def test_without_the_engine_there_is_a_refusal_and_no_zero(people: People, acme: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    for what in ("lag", "offsets"):
        response = acme.get(f"/v1/ns/acme/groups/billing/{what}")
        assert (response.status_code, response.json()["code"]) == (503, "ENGINE_UNAVAILABLE")


def test_what_belongs_to_others_is_as_what_does_not_exist(
    people: People, reader: Reader, api: Api
) -> None:
    rival = api(people.rival_key)
    bodies: dict[str, Json] = {
        ":seek": {"to": "earliest"},
        "/offsets:commit": {"queue": 0, "offset": 2},
    }
    for path, code in (
        (reader.path, "NAMESPACE_NOT_FOUND"),
        (f"/v1/ns/nobody/groups/{reader.group}", "NAMESPACE_NOT_FOUND"),
        (f"/v1/ns/rival/groups/{reader.group}", "GROUP_NOT_FOUND"),
    ):
        answers = [rival.get(f"{path}/lag"), rival.get(f"{path}/offsets")]
        for what, body in bodies.items():
            content = msgspec.json.encode({"topic": reader.topic, **body})
            answers.append(rival.post(path + what, data=content, content_type="application/json"))
        assert {(each.status_code, each.json()["code"]) for each in answers} == {(404, code)}
    assert rival.put("/v1/ns/rival/groups/own").status_code == 201
    reader.path = "/v1/ns/rival/groups/own"
    reader.client = rival
    for what, body in bodies.items():
        status, problem = reader.post(what, **body)
        assert (status, problem["code"]) == (404, "TOPIC_NOT_FOUND")
        assert [item["pointer"] for item in problem["errors"]] == ["/topic"]
    for what in ("lag", "offsets"):
        answer = rival.get(f"{reader.path}/{what}?topic={reader.topic}")
        assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_FOUND")


def test_a_key_without_manage_may_commit_but_not_seek(
    people: People, reader: Reader, api: Api
) -> None:
    reader.client = api(people.acme_reader_key)
    for is_dry_run in (False, True):
        status, problem = reader.post(":seek", to="earliest", dry_run=is_dry_run)
        assert (status, problem["code"]) == (403, "FORBIDDEN")
    assert reader.post("/offsets:commit", queue=0, offset=2)[0] == 200


def test_a_seek_whose_answer_got_lost_is_written_down_as_unknown(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise OutcomeUnknown("the connection broke")

    monkeypatch.setattr(offsets, "_reset", lose)
    status, problem = reader.post(":seek", to="latest")
    assert (status, problem["code"]) == (503, "OUTCOME_UNKNOWN")
    assert AuditEntry.objects.get(action="group.seek").outcome == "unknown"


def test_a_seek_that_cannot_be_written_down_is_reported_in_the_log(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Json] = []

    def fail(_: AuditEntry) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(audit, "insert", fail)
    monkeypatch.setattr(audit.log, "error", lambda _, extra: told.append(extra))
    status, _ = reader.post(":seek", to="latest")
    assert status == 500
    assert told[0]["details"]["queues"] == [
        {"queue": 0, "from": 1, "to": 5},
        {"queue": 1, "from": 0, "to": 2},
    ]
