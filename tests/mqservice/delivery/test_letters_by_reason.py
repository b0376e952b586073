"""Dead letters of one cause through REST on a real engine: which fit, how far a page looks."""

from __future__ import annotations

import httpx
import pytest

from mqservice.delivery.reading import cause_walk
from tests.mqservice.delivery.browsing import dead_letters, put
from tests.mqservice.delivery.serving import Json
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = [
    pytest.mark.real_engine(queue_count=1),
    pytest.mark.group_settings(max_reconsume_times=0),
]


def give_up(api: httpx.Client, topic: str, group: str, *reasons: str) -> None:
    """One message for each reason; its body is the number of it."""
    put(api, topic, *({"body": f"{n}", "keys": [f"k{n % 2}"]} for n in range(len(reasons))))
    left = dict(enumerate(reasons))
    while left:
        answer = api.post(
            f"/v1/-/topics/{topic}/groups/{group}:receive", json={"wait": "20s", "max": 64}
        )
        nacks = [
            {"receipt": message["receipt"], "reason": left.pop(int(message["body"]))}
            for message in answer.json()["messages"]
        ]
        assert nacks, f"{left} were not delivered"
        settled = api.post(f"/v1/-/groups/{group}:settle", json={"nack": nacks})
        assert settled.json()["failed"] == []
    wait_until(lambda: len(dead_letters(api, group, limit=256)["messages"]) == len(reasons))


def numbers(answer: Json) -> list[int]:
    return [int(message["body"]) for message in answer["messages"]]


def test_letters_of_one_cause_fit_whatever_their_numbers(
    api: httpx.Client, topic: str, group: str
) -> None:
    give_up(
        api, topic, group,
        "Order 1 timed out after 30 s", "no stock", "", "Order 22 timed out after 4.5 s",
        "Order 1 timed out after 30 s, twice",
    )  # fmt: skip

    fitting = dead_letters(api, group, reason="Order 999 timed out after 1 s")
    assert sorted(numbers(fitting)) == [0, 3]
    assert fitting["scanned"] == 5
    assert numbers(dead_letters(api, group, reason="Order <n> timed out after <n> s")) == numbers(
        fitting
    )
    assert numbers(dead_letters(api, group, reason=" no  stock ")) == [1]
    assert numbers(dead_letters(api, group, reason="<none>")) == [2]
    assert numbers(dead_letters(api, group, reason="another")) == []
    by_key = dead_letters(api, group, reason="Order 1 timed out after 1 s", key="k1")
    assert numbers(by_key) == [3]
    assert "scanned" not in dead_letters(api, group)


def test_pages_lead_through_all_letters_of_a_cause_once(
    api: httpx.Client, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up(api, topic, group, *(["wanted 1", "other"][n % 3 == 2] for n in range(40)))
    wanted = [number for number in range(40) if number % 3 != 2]
    # The server runs in this process: so few letters are read for a page that many are short.
    monkeypatch.setattr(cause_walk, "BROWSE_COUNT_MAX", 4)
    monkeypatch.setattr(cause_walk, "CAUSE_PAGES_MAX", 2)

    for limit in (1, 3, 256):
        found: list[int] = []
        scanned = 0
        query: dict[str, str | int] = {"reason": "wanted 2", "limit": limit}
        while True:
            page = dead_letters(api, group, **query)
            assert len(page["messages"]) <= limit
            assert page["scanned"] <= 8
            found += numbers(page)
            scanned += page["scanned"]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        assert sorted(found) == wanted
        assert scanned == 40


def test_a_cursor_is_one_of_its_reason(api: httpx.Client, topic: str, group: str) -> None:
    give_up(api, topic, group, *["late 1"] * 3)
    cursor = dead_letters(api, group, reason="late 2", limit=1)["next_cursor"]

    assert len(dead_letters(api, group, reason="late 3", cursor=cursor)["messages"]) == 2
    for query in ({}, {"reason": "early 1"}):
        refused = api.get(f"/v1/-/groups/{group}/dlq", params={**query, "cursor": cursor})
        assert refused.json()["code"] == "CURSOR_INVALID"


def test_group_that_gave_nothing_up_has_nothing_of_any_reason(
    api: httpx.Client, group: str
) -> None:
    answer = dead_letters(api, group, reason="x")
    assert (answer["messages"], answer["next_cursor"], answer["scanned"]) == ([], None, 0)
