"""Broadcast groups and consume timeouts over REST: settings, lag, seeks and commits of clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from mqservice.console.shared.figures import figures_of
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import (
    Dispatch,
    LeaseRef,
    Nack,
    Received,
    ReceiveRequest,
    SettleRequest,
    StoreClient,
    blocking_client,
)
from tests.mqservice.groups.reading import Json, Reader
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)
GROUP = "/v1/ns/acme/groups/"
HOUR_MS = 3_600_000


@pytest.fixture
def store(engine: str) -> Iterator[StoreClient]:
    with StoreClient(engine, client_name="test") as client:
        yield client


@pytest.fixture
def reader(acme: Client, store: StoreClient) -> Reader:
    """A topic with three messages, and a group that broadcasts."""
    reader = Reader(acme, store, queues=1)
    put(acme, reader.group, dispatch="broadcast")
    reader.put(3)
    return reader


def put(client: Client, name: str, **settings: object) -> Json:
    response = client.put(GROUP + name, settings, content_type="application/json")
    assert response.status_code in {200, 201}, response.content
    shown: Json = response.json()
    return shown


def refused(client: Client, name: str, **settings: object) -> list[tuple[str, str]]:
    response = client.put(GROUP + name, settings, content_type="application/json")
    assert response.status_code == 400, response.content
    return [(item["pointer"], item["code"]) for item in response.json()["errors"]]


def receive(reader: Reader, client_id: str, count: int = 100) -> Received:
    return reader.store.receive(
        ReceiveRequest(
            group=f"acme%{reader.group}", topic=f"acme%{reader.topic}", member_id="m",
            messages_max=count, bytes_max=1_000_000, wait_ms=0, lease_ms=60_000,
            client_id=client_id,
        )
    )  # fmt: skip


def settle(reader: Reader, client_id: str, received: Received, *, nacks: int = 0) -> None:
    """Ack all but the first ``nacks``."""
    generation = received.head.lease_generation
    refs = [
        LeaseRef(
            topic=record.topic, queue_id=record.queue_id, queue_offsets=[record.queue_offset],
            lease_generation=generation,
        )
        for record in received.records[nacks:]
    ]  # fmt: skip
    failed = [
        Nack(
            topic=record.topic, queue_id=record.queue_id, queue_offset=record.queue_offset,
            lease_generation=generation,
        )
        for record in received.records[:nacks]
    ]  # fmt: skip
    name = f"acme%{reader.group}"
    request = SettleRequest(group=name, acks=refs, nacks=failed, client_id=client_id)
    assert reader.store.settle(request).failures == []


# Settings -------------------------------------------------------------------------------------


def test_the_engine_knows_that_a_group_broadcasts(acme: Client, store: StoreClient) -> None:
    assert put(acme, "news", dispatch="broadcast")["dispatch"] == "broadcast"
    shown = acme.get(GROUP + "news").json()
    (config,) = [one for one in store.group_list().groups if one.group == "acme%news"]
    assert config.dispatch is Dispatch.BROADCAST
    # What a GET shows can be sent back, but for what no PUT takes.
    settings = {name: shown[name] for name in ("start_from", "lease", "consume_timeout",
        "max_attempts", "retry", "dispatch", "strategy", "ordered")}  # fmt: skip
    assert put(acme, "news", **settings) == {**shown, "lag": None}


@pytest.mark.parametrize(
    ("wanted", "pointer"),
    [
        ({"ordered": True}, "/ordered"),
        ({"strategy": "CONSISTENT_HASH"}, "/strategy"),
        ({"max_attempts": 3}, "/max_attempts"),
        ({"max_attempts": None}, "/max_attempts"),
        ({"retry": {"policy": "list", "delays": ["1s"]}}, "/retry"),
    ],
)
def test_what_makes_no_sense_for_it_is_refused(
    engine: str, acme: Client, wanted: dict[str, object], pointer: str
) -> None:
    assert refused(acme, "odd", dispatch="broadcast", **wanted) == [(pointer, "ILLEGAL_SETTING")]
    assert not ConsumerGroup.objects.exists()


def test_dispatch_changes_to_or_from_it_until_something_is_read(reader: Reader) -> None:
    put(reader.client, reader.group, dispatch="shared")
    put(reader.client, reader.group, dispatch="broadcast")
    receive(reader, "a")
    response = reader.client.put(
        reader.path, {"dispatch": "shared"}, content_type="application/json"
    )
    assert response.status_code == 400
    assert "delete the group first" in response.json()["detail"]
    assert reader.client.get(reader.path).json()["dispatch"] == "broadcast"
    assert reader.client.delete(reader.path).status_code == 204
    assert put(reader.client, reader.group, dispatch="shared")["dispatch"] == "shared"


def test_consume_timeout_is_three_hours_unless_told_otherwise(
    acme: Client, store: StoreClient
) -> None:
    shown = put(acme, "plain")
    assert (shown["consume_timeout"], shown["consume_timeout_ms"]) == ("3h", 3 * HOUR_MS)
    assert put(acme, "plain", consume_timeout="90s")["consume_timeout_ms"] == 90_000
    assert put(acme, "plain", consume_timeout_ms=10_800_000)["consume_timeout"] == "3h"
    assert put(acme, "plain", consume_timeout="10m")["consume_timeout"] == "10m"
    (config,) = [one for one in store.group_list().groups if one.group == "acme%plain"]
    assert config.consume_timeout_ms == 600_000


def test_a_longer_lease_takes_the_timeout_along(engine: str, acme: Client) -> None:
    shown = put(acme, "long", lease="12h")
    assert (shown["lease"], shown["consume_timeout"]) == ("12h", "12h")
    assert refused(acme, "long", consume_timeout="11h") == [("/consume_timeout", "ILLEGAL_SETTING")]
    assert put(acme, "long", lease="1m", consume_timeout="1h")["consume_timeout"] == "1h"
    assert refused(acme, "new", lease="2m", consume_timeout="1m") == [
        ("/consume_timeout", "ILLEGAL_SETTING")
    ]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("9s", "ILLEGAL_SETTING"),
        ("13h", "ILLEGAL_SETTING"),
        ("0s", "ILLEGAL_SETTING"),
        ("soon", "BAD_REQUEST"),
        (60, "BAD_REQUEST"),
        ([], "BAD_REQUEST"),
    ],
)
def test_timeouts_of_another_form_or_size_are_refused(
    acme: Client, value: object, code: str
) -> None:
    assert refused(acme, "odd", consume_timeout=value) == [("/consume_timeout", code)]


# Lag ------------------------------------------------------------------------------------------


def test_lag_tells_of_each_client(reader: Reader) -> None:
    settle(reader, "ahead@1", receive(reader, "ahead@1"))
    settle(reader, "behind", receive(reader, "behind", 2), nacks=1)
    shown = reader.lag()
    assert (shown["lag"], shown["dropped"], shown["client_id"]) == (1, 1, None)
    clients = shown["clients"]
    assert (clients["total"], clients["next"]) == (2, None)
    names = ("client_id", "lag", "ready", "inflight", "dropped")
    assert [[each[name] for name in names] for each in clients["clients"]] == [
        ["ahead@1", 0, 0, 0, 0],
        ["behind", 1, 1, 0, 1],
    ]
    assert reader.lag(f"?topic={reader.topic}")["clients"]["clients"][1]["lag"] == 1
    one = reader.lag("?client_id=ahead%401")
    assert (one["client_id"], one["lag"], one["dropped"], one["clients"]) == ("ahead@1", 0, 0, None)
    assert [queue["consumer_offset"] for queue in one["topics"][0]["queues"]] == [3]


def test_clients_come_in_pages(reader: Reader) -> None:
    for name in ("c", "a", "b"):
        receive(reader, name)
    first = reader.lag("?limit=2")["clients"]
    assert [each["client_id"] for each in first["clients"]] == ["a", "b"]
    assert (first["total"], first["next"]) == (3, "b")
    last = reader.lag(f"?limit=2&after={first['next']}")["clients"]
    assert ([each["client_id"] for each in last["clients"]], last["next"]) == (["c"], None)
    assert reader.lag("?after=zzz")["clients"] == {"total": 3, "clients": [], "next": None}
    for query in ("?limit=0", "?limit=1001", "?limit=x"):
        assert reader.client.get(f"{reader.path}/lag{query}").status_code in {400, 422}


@pytest.mark.parametrize("what", ["/lag?client_id=", "/offsets?client_id="])
def test_clients_that_are_not_there_are_refused(reader: Reader, what: str) -> None:
    for name, told in (
        ("nobody", "the group has no client nobody"),
        ("a%20b", "the characters"),
        ("", "empty"),
    ):
        response = reader.client.get(f"{reader.path}{what}{name}")
        assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")
        assert told in response.json()["detail"]


def test_groups_that_do_not_broadcast_have_no_clients(acme: Client, store: StoreClient) -> None:
    reader = Reader(acme, store)
    shown = reader.lag()
    assert (shown["clients"], shown["dropped"], shown["client_id"]) == (None, None, None)
    assert acme.get(f"{reader.path}/lag?client_id=a").status_code == 400
    status, problem = reader.post(":seek", to="earliest", client_id="a")
    assert (status, problem["errors"][0]["pointer"]) == (400, "/client_id")
    status, problem = reader.post("/offsets:commit", queue=0, offset=0, client_id="a")
    assert (status, problem["errors"][0]["pointer"]) == (400, "/client_id")
    assert reader.seek("earliest")["clients"] is None


def test_pages_show_the_group_and_nothing_of_its_clients(reader: Reader, people: People) -> None:
    for name in ("a", "b"):
        receive(reader, name)
    with blocking_client(MAIN_SHARD) as client:
        groups = figures_of(people.acme, client, SystemClock().now_ms()).groups
    assert list(groups) == [reader.group]
    assert (groups[reader.group].lag, groups[reader.group].inflight) == (3, 6)
    listed = reader.client.get("/v1/ns/acme/groups").json()["groups"]
    assert [group["name"] for group in listed] == [reader.group]
    assert reader.client.get(reader.path).json()["lag"]["total"] == 3


# Seek and commit ------------------------------------------------------------------------------


def test_a_seek_moves_all_clients_or_one(reader: Reader) -> None:
    for name in ("a", "b"):
        settle(reader, name, receive(reader, name))
    dry = reader.seek("earliest", dry_run=True)
    assert (dry["clients"], dry["replayed"], dry["queues"][0]["from_offset"]) == (2, 6, 3)
    assert receive(reader, "a").records == []
    one = reader.seek("earliest", client_id="b")
    assert (one["clients"], one["replayed"]) == (1, 3)
    assert receive(reader, "a").records == []
    assert len(receive(reader, "b").records) == 3
    assert reader.seek({"offset": 1, "queue": 0})["clients"] == 2
    assert [len(receive(reader, name).records) for name in ("a", "b")] == [2, 2]
    status, problem = reader.post(":seek", to="earliest", client_id="nobody")
    assert (status, problem["code"]) == (400, "BAD_REQUEST")


def test_a_client_that_pulls_commits_for_itself(reader: Reader) -> None:
    status, problem = reader.post("/offsets:commit", queue=0, offset=2)
    assert (status, problem["errors"][0]["pointer"]) == (400, "/client_id")
    status, done = reader.post("/offsets:commit", queue=0, offset=2, client_id="pulls")
    assert (status, done["to_offset"]) == (200, 2)
    assert len(receive(reader, "pulls").records) == 1
    assert len(receive(reader, "other").records) == 3
    offsets = reader.client.get(f"{reader.path}/offsets?client_id=pulls").json()["offsets"]
    assert [row["consumer_offset"] for row in offsets] == [2]
