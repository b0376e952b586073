"""Putting, taking and settling messages and walking through them, as clients of REST do."""

from __future__ import annotations

import httpx

from tests.mqservice.delivery.serving import Json

PAGES_MAX = 1_000


def put(api: httpx.Client, topic: str, *messages: Json) -> list[Json]:
    response = api.post(f"/v1/-/topics/{topic}/messages:batch", json=list(messages))
    assert response.status_code == 201, response.text
    results: list[Json] = response.json()["results"]
    return results


def receive(
    api: httpx.Client, topic: str, group: str = "billing", **options: object
) -> httpx.Response:
    path = f"/v1/-/topics/{topic}/groups/{group}:receive"
    return api.post(path, json={"wait": "0s", **options})


def received(
    api: httpx.Client, topic: str, group: str = "billing", **options: object
) -> list[Json]:
    response = receive(api, topic, group, **options)
    assert response.status_code == 200, response.text
    messages: list[Json] = response.json()["messages"]
    return messages


def settle(api: httpx.Client, group: str = "billing", **parts: object) -> Json:
    response = api.post(f"/v1/-/groups/{group}:settle", json=parts)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def dead_letters(api: httpx.Client, group: str, **query: str | int) -> Json:
    response = api.get(f"/v1/-/groups/{group}/dlq", params=query)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def browse(api: httpx.Client, topic: str, **query: str | int) -> Json:
    response = api.get(f"/v1/-/topics/{topic}/messages", params=query)
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def walk(api: httpx.Client, topic: str, **query: str | int) -> list[list[Json]]:
    """The messages of all pages."""
    pages = []
    for _ in range(PAGES_MAX):
        answer = browse(api, topic, **query)
        pages.append(answer["messages"])
        if answer["next_cursor"] is None:
            return pages
        query["cursor"] = answer["next_cursor"]
    raise AssertionError(f"{PAGES_MAX} pages and no end")


def bodies(pages: list[list[Json]]) -> list[str]:
    return [message["body"] for page in pages for message in page]
