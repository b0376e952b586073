"""Exclusive and ordered groups over REST: what may be set, and what their consumers see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.store import Dispatch, ReceiveRequest, StoreClient, Strategy
from tests.mqservice.groups.reading import Reader
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)
GROUP = "/v1/ns/acme/groups/"
SHARED = {"dispatch": "shared", "strategy": "AVG", "ordered": False, "batch_per_group": 1}


def put(client: Client, name: str, **settings: object) -> dict[str, object]:
    response = client.put(GROUP + name, settings, content_type="application/json")
    assert response.status_code in {200, 201}, response.content
    shown: dict[str, object] = response.json()
    return shown


def test_a_group_shares_its_queues_unless_told_otherwise(engine: str, acme: Client) -> None:
    assert put(acme, "plain").items() >= SHARED.items()


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"])
def test_the_engine_knows_what_a_tenant_chose(engine: str, acme: Client, strategy: str) -> None:
    wanted = {"dispatch": "exclusive", "strategy": strategy, "ordered": True}
    assert put(acme, "sorted", **wanted).items() >= wanted.items()
    assert acme.get(GROUP + "sorted").json().items() >= wanted.items()
    with StoreClient(engine, client_name="test") as client:
        (config,) = [one for one in client.group_list().groups if one.group == "acme%sorted"]
    assert (config.dispatch, config.strategy, config.is_ordered) == (
        Dispatch.EXCLUSIVE,
        Strategy(strategy),
        True,
    )
    assert put(acme, "sorted", ordered=False, dispatch="shared")["dispatch"] == "shared"


def test_a_group_that_shares_its_queues_may_be_ordered(engine: str, acme: Client) -> None:
    wanted = {"dispatch": "shared", "ordered": True, "batch_per_group": 7}
    assert put(acme, "lanes", **wanted).items() >= wanted.items()
    with StoreClient(engine, client_name="test") as client:
        (config,) = [one for one in client.group_list().groups if one.group == "acme%lanes"]
    assert (config.dispatch, config.is_ordered, config.batch_per_group) == (
        Dispatch.SHARED,
        True,
        7,
    )
    changed = put(acme, "lanes", dispatch="exclusive", batch_per_group=1)
    assert (changed["ordered"], changed["batch_per_group"]) == (True, 1)


@pytest.mark.parametrize(
    ("wanted", "pointer"),
    [
        ({"dispatch": "private"}, "/dispatch"),
        ({"strategy": "RANDOM"}, "/strategy"),
        ({"strategy": "CONFIG"}, "/assignment"),
        ({"strategy": "MACHINE_ROOM", "assignment": {"rooms": {"a": [0]}}}, "/assignment"),
        ({"assignment": []}, "/assignment"),
        ({"assignment": {"consumers": [1]}}, "/assignment/consumers"),
        ({"assignment": {"consumers": {"w 1": [1]}}}, "/assignment/consumers/w 1"),
        ({"assignment": {"consumers": {"w": 1}}}, "/assignment/consumers/w"),
        ({"assignment": {"consumers": {"w": [0, "1"]}}}, "/assignment/consumers/w/1"),
        ({"assignment": {"consumers": {"w": [256]}}}, "/assignment/consumers/w/0"),
        ({"assignment": {"consumers": {"v": [1], "w": [1]}}}, "/assignment"),
        ({"assignment": {"rooms": {"a": [True]}}}, "/assignment/rooms/a/0"),
        ({"assignment": {"read": "a"}}, "/assignment/read"),
        ({"assignment": {"read": ["a"]}}, "/assignment"),
        ({"assignment": {"within_room": "CONFIG"}}, "/assignment/within_room"),
        ({"assignment": {"colour": 1}}, "/assignment/colour"),
        ({"ordered": "yes"}, "/ordered"),
        ({"batch_per_group": 0}, "/batch_per_group"),
        ({"batch_per_group": 33}, "/batch_per_group"),
        ({"batch_per_group": "all"}, "/batch_per_group"),
    ],
)
def test_what_makes_no_sense_is_refused(
    engine: str, acme: Client, wanted: dict[str, object], pointer: str
) -> None:
    response = acme.put(GROUP + "odd", wanted, content_type="application/json")
    assert response.status_code == 400
    assert [item["pointer"] for item in response.json()["errors"]] == [pointer]
    assert acme.get(GROUP + "odd").status_code == 404


def test_a_refused_assignment_names_consumers_as_the_request_does(
    engine: str, acme: Client
) -> None:
    wanted = {"assignment": {"consumers": {"v": [1], "w": [1]}}}
    response = acme.put(GROUP + "odd", wanted, content_type="application/json")
    assert "for 'v' and for 'w'" in response.json()["detail"]


CONFIG = {"consumers": {"w1": [0, 2], "w2": [1]}}
ROOMS = {"rooms": {"east": [0, 1], "west": [2]}}


@pytest.mark.parametrize(
    ("strategy", "assignment", "shown"),
    [
        ("CONFIG", CONFIG, CONFIG),
        ("MACHINE_ROOM", {**ROOMS, "read": ["east"]}, {**ROOMS, "read": ["east"]}),
        ("MACHINE_ROOM_NEARBY", ROOMS, {**ROOMS, "within_room": "AVG"}),
    ],
)
def test_strategies_with_a_policy_are_set_shown_and_taken_back(
    engine: str, acme: Client, strategy: str, assignment: object, shown: object
) -> None:
    wanted = {"dispatch": "exclusive", "strategy": strategy, "assignment": assignment}
    assert put(acme, "roomy", **wanted)["assignment"] == shown
    assert acme.get(GROUP + "roomy").json()["assignment"] == shown
    assert put(acme, "roomy", assignment=shown)["assignment"] == shown
    assert put(acme, "roomy", lease="30s")["assignment"] == shown
    assert put(acme, "roomy", strategy="AVG", assignment={})["assignment"] == {}


def poll(
    store: StoreClient, group: str, topic: str, consumer: str, zone: str = "", tags: str = "*"
) -> None:
    store.receive(
        ReceiveRequest(
            group=f"acme%{group}", topic=f"acme%{topic}", member_id=f"consumer-{consumer}",
            messages_max=1, bytes_max=1_000, wait_ms=0, lease_ms=60_000, zone=zone, filter=tags,
        )
    )  # fmt: skip


def test_clients_are_listed_with_their_queues(engine: str, acme: Client) -> None:
    with StoreClient(engine, client_name="test") as store:
        reader = Reader(acme, store, queues=4)
        put(acme, reader.group, dispatch="exclusive", strategy="CONFIG", assignment=CONFIG)
        reader.put(1)
        assert acme.get(reader.path + "/clients").json() == {"group": reader.group, "topics": []}
        for consumer in ("w1", "w2", "w3"):
            poll(store, reader.group, reader.topic, consumer, zone="east")

        [topic] = acme.get(reader.path + "/clients").json()["topics"]

        assert (topic["topic"], topic["unassigned"], topic["is_complete"]) == (
            reader.topic, [3], True,
        )  # fmt: skip
        assert topic["generation"] == 3
        clients = {one["consumer"]: one for one in topic["clients"]}
        assert {name: one["queues"] for name, one in clients.items()} == {
            "w1": [0, 2], "w2": [1], "w3": [],
        }  # fmt: skip
        assert (clients["w1"]["inflight"], clients["w1"]["zone"]) == (1, "east")
        assert not clients["w1"]["waiting"]
        assert clients["w1"]["heard_at"].endswith("Z")


def test_clients_tell_the_filter_they_read_through(engine: str, acme: Client) -> None:
    with StoreClient(engine, client_name="test") as store:
        reader = Reader(acme, store)
        poll(store, reader.group, reader.topic, "w1", tags="b||a")
        [topic] = acme.get(reader.path + "/clients").json()["topics"]
    assert topic["filter"] == "a || b"


def test_clients_of_a_shared_group_have_no_queues_of_their_own(engine: str, acme: Client) -> None:
    with StoreClient(engine, client_name="test") as store:
        reader = Reader(acme, store)
        poll(store, reader.group, reader.topic, "w1")
        [topic] = acme.get(reader.path + "/clients").json()["topics"]
    assert (topic["generation"], topic["unassigned"]) == (None, None)
    assert (topic["filter"], topic["held_up"]) == (None, False)
    assert [(one["consumer"], one["queues"]) for one in topic["clients"]] == [("w1", None)]


def test_clients_of_others_are_not_shown(
    engine: str, acme: Client, people: People, api: Callable[[str], Client]
) -> None:
    put(acme, "mine")
    for path in (GROUP + "mine/clients", "/v1/ns/rival/groups/mine/clients"):
        assert api(people.rival_key).get(path).status_code == 404
    assert acme.get(GROUP + "absent/clients").json()["code"] == "GROUP_NOT_FOUND"
