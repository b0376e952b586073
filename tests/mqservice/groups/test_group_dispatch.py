"""Exclusive and ordered groups over REST: what may be set, and what their consumers see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.store import Dispatch, StoreClient, Strategy
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)
GROUP = "/v1/ns/acme/groups/"
SHARED = {"dispatch": "shared", "strategy": "AVG", "ordered": False, "batch_per_group": 1}


@pytest.fixture
def acme(people: People, api: Callable[[str], Client]) -> Client:
    return api(people.acme_key)


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
        ({"strategy": "CONFIG"}, "/strategy"),
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
