"""Retry policies over REST: each form there and back, and every fault with its place."""

from __future__ import annotations

import msgspec
import pytest
from django.test import Client

from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import (
    ExponentialDelays,
    GroupConfig,
    LevelDelays,
    ListDelays,
    RetryPolicy,
    blocking_client,
)

Json = dict[str, object]
PATH = "/v1/ns/acme/groups/"


def put(client: Client, name: str, **settings: object):  # type: ignore[no-untyped-def]  # the client's own answer type
    body = msgspec.json.encode(settings)
    return client.put(PATH + name, data=body, content_type="application/json")


def in_engine(name: str) -> GroupConfig:
    with blocking_client(MAIN_SHARD) as client:
        groups = {group.group: group for group in client.group_list().groups}
    return groups[f"acme%{name}"]


@pytest.mark.parametrize(
    ("given", "policy", "shown"),
    [
        ({"policy": "levels"}, LevelDelays(), {"policy": "levels"}),
        (
            {"policy": "list", "delays": ["10s", "60s", "1500ms"]},
            ListDelays(delays_ms=(10_000, 60_000, 1_500)),
            {"policy": "list", "delays": ["10s", "1m", "1500ms"]},
        ),
        (
            {"policy": "list", "delays_ms": [1]},
            ListDelays(delays_ms=(1,)),
            {"policy": "list", "delays": ["1ms"]},
        ),
        (
            {"policy": "exponential", "start": "1s", "factor": 3, "cap_ms": 60_000},
            ExponentialDelays(start_ms=1_000, factor=3.0, cap_ms=60_000),
            {"policy": "exponential", "start": "1s", "factor": 3.0, "cap": "1m"},
        ),
        (
            {"policy": "exponential"},
            ExponentialDelays(),
            {"policy": "exponential", "start": "5s", "factor": 2.0, "cap": "2h"},
        ),
    ],
)
def test_a_policy_is_stored_and_shown_and_the_engine_has_it(
    engine: str, acme: Client, given: Json, policy: RetryPolicy, shown: Json
) -> None:
    assert put(acme, "retrying", retry=given).status_code == 201
    assert in_engine("retrying").retry == policy
    assert acme.get(PATH + "retrying").json()["retry"] == shown
    # What was read can be sent back, and is the same.
    again = put(acme, "retrying", retry=shown)
    assert (again.status_code, again["ETag"]) == (200, '"1"')


def test_a_new_policy_counts_as_a_change_and_none_leaves_it(engine: str, acme: Client) -> None:
    assert put(acme, "counted")["ETag"] == '"1"'
    listed = put(acme, "counted", retry={"policy": "list", "delays": ["1m"]})
    assert listed["ETag"] == '"2"'
    left = put(acme, "counted", lease="30s")
    assert left["ETag"] == '"3"'
    assert left.json()["retry"] == {"policy": "list", "delays": ["1m"]}


@pytest.mark.parametrize(("attempts", "times"), [(1, 0), (1_000, 999), (None, -1)])
def test_attempts_count_the_first_delivery_and_null_is_no_limit(
    engine: str, acme: Client, attempts: int | None, times: int
) -> None:
    response = put(acme, "tried", max_attempts=attempts)
    assert response.json()["max_attempts"] == attempts
    assert in_engine("tried").max_reconsume_times == times
    assert put(acme, "tried").json()["max_attempts"] == attempts


@pytest.mark.parametrize(
    ("retry", "pointers"),
    [
        ("levels", ["/retry"]),
        ([], ["/retry"]),
        ({}, ["/retry/policy"]),
        ({"policy": "linear"}, ["/retry/policy"]),
        ({"policy": 1}, ["/retry/policy"]),
        ({"policy": "levels", "delays": ["1s"]}, ["/retry/delays"]),
        ({"policy": "list"}, ["/retry/delays"]),
        ({"policy": "list", "delays": []}, ["/retry/delays"]),
        ({"policy": "list", "delays": "1s"}, ["/retry/delays"]),
        ({"policy": "list", "delays": ["1s"] * 1_001}, ["/retry/delays"]),
        ({"policy": "list", "delays": ["1s"], "delays_ms": [1]}, ["/retry/delays"]),
        (
            {"policy": "list", "delays": ["1s", "soon", 3, "0s", "366d"]},
            ["/retry/delays/1", "/retry/delays/2", "/retry/delays/3", "/retry/delays/4"],
        ),
        (
            {"policy": "list", "delays_ms": [1, True, 1.5]},
            ["/retry/delays_ms/1", "/retry/delays_ms/2"],
        ),
        ({"policy": "exponential", "factor": 0.9}, ["/retry/factor"]),
        ({"policy": "exponential", "factor": "2"}, ["/retry/factor"]),
        ({"policy": "exponential", "factor": True}, ["/retry/factor"]),
        ({"policy": "exponential", "start": "1m", "cap": "1s"}, ["/retry/cap"]),
        ({"policy": "exponential", "start": "1m", "cap_ms": 1}, ["/retry/cap_ms"]),
        ({"policy": "exponential", "start_ms": 0, "a/b": 1}, ["/retry/start_ms", "/retry/a~1b"]),
    ],
)  # fmt: skip
def test_a_bad_policy_is_refused_with_each_place(
    acme: Client, retry: object, pointers: list[str]
) -> None:
    response = put(acme, "refused", retry=retry)
    assert response.status_code == 400
    assert [item["pointer"] for item in response.json()["errors"]] == pointers
    assert not ConsumerGroup.objects.exists()


def test_one_answer_names_every_fault(acme: Client) -> None:
    response = put(
        acme, "refused", start_from="middle", lease="long", max_attempts=0, colour="red",
        retry={"policy": "list", "delays": ["1s", "x"]},
    )  # fmt: skip
    body = response.json()
    assert (response.status_code, body["code"]) == (400, "BAD_REQUEST")
    assert [(item["pointer"], item["code"]) for item in body["errors"]] == [
        ("/start_from", "BAD_REQUEST"),
        ("/lease", "BAD_REQUEST"),
        ("/max_attempts", "ILLEGAL_SETTING"),
        ("/retry/delays/1", "BAD_REQUEST"),
        ("/colour", "BAD_REQUEST"),
    ]


def test_only_values_out_of_range_are_illegal_settings(acme: Client) -> None:
    body = put(acme, "refused", max_attempts=1_001, lease="13h").json()
    assert body["code"] == "ILLEGAL_SETTING"
    assert [item["pointer"] for item in body["errors"]] == ["/lease", "/max_attempts"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'"x"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(acme: Client, body: bytes) -> None:
    response = acme.put(PATH + "refused", data=body, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")
    assert not ConsumerGroup.objects.exists()
