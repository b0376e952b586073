"""A search of dead letters refuses what a search of a topic does, in the same words."""

from __future__ import annotations

import httpx
import pytest

from tests.mqservice.delivery.serving import serving
from tests.mqservice.delivery.store_double import StoreDouble

LATER, EARLIER = "2026-11-21T09:00:00.000Z", "2026-11-21T08:59:59.999Z"


@pytest.mark.parametrize(
    ("query", "code", "pointer", "says"),
    [
        ("key=", "ILLEGAL_KEY", "?key", "must not be blank"),
        ("key=a%20b", "ILLEGAL_KEY", "?key", "white space"),
        (f"from={LATER}&to={EARLIER}", "BAD_REQUEST", "?to", "1 ms before"),
        ("reason=%20", "BAD_REQUEST", "?reason", "use <none> for"),
        ("reason=%01%00", "BAD_REQUEST", "?reason", "use <none> for"),
        (f"reason={'x' * 1_001}", "BAD_REQUEST", "?reason", "found 1001"),
    ],
)
def test_condition_that_nothing_can_meet_is_refused(
    query: str, code: str, pointer: str, says: str
) -> None:
    with serving(StoreDouble()) as server:
        server.group("billing")
        answer = httpx.get(
            f"{server.url}/v1/-/groups/billing/dlq?{query}",
            headers={"authorization": server.key()},
            timeout=60,
        )

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, code)
    assert problem["errors"][0]["pointer"] == pointer
    assert says in problem["detail"]
