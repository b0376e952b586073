"""What a run of clients asks before and after: a topic and a group, and what is left of it."""

from __future__ import annotations

import httpx

from mqservice.supervisor.quickstart import Quickstart

TIMEOUT_S = 60


def make_topic_and_group(facts: Quickstart, name: str, group: dict[str, object]) -> None:
    """Of one name; neither is there yet."""
    with httpx.Client(headers=_headers(facts), timeout=TIMEOUT_S) as api:
        for path, settings in (("topics", {"queues": 4}), ("groups", group)):
            url = f"{facts.base_url}/v1/ns/{facts.namespace}/{path}/{name}"
            response = api.put(url, json=settings)
            assert response.status_code == 201, response.text


def make_topic(facts: Quickstart, name: str) -> None:
    """Unless it is there."""
    with httpx.Client(headers=_headers(facts), timeout=TIMEOUT_S) as api:
        url = f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{name}"
        response = api.put(url, json={"queues": 4})
        assert response.status_code in (200, 201), response.text


def is_drained(facts: Quickstart, name: str) -> bool:
    """Whether the group has nothing before it; False too while the service does not answer."""
    path = f"{facts.base_url}/v1/ns/{facts.namespace}/groups/{name}/lag"
    try:
        answer = httpx.get(path, headers=_headers(facts), timeout=TIMEOUT_S)
    except httpx.TransportError:
        return False
    if answer.status_code != 200:
        return False
    lag = answer.json()
    return (lag["lag"], lag["retry"]) == (0, {"waiting": 0, "scheduled": 0})


def _headers(facts: Quickstart) -> dict[str, str]:
    return {"authorization": f"Bearer {facts.api_key}"}
