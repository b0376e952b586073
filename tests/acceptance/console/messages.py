"""What the tests of the console send and consume beside the browser, over REST."""

from __future__ import annotations

from typing import Final

import httpx

from tests.services import Service

SCRIPT: Final = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)


def produce(service: Service, topic: str, body: str, **more: object) -> str:
    """Id of a message that was stored over REST, with fields of the API besides the body."""
    facts = service.facts
    answer = httpx.post(
        f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{topic}/messages",
        headers={"authorization": f"Bearer {facts.api_key}"},
        json={"body": body, "keys": ["from-rest"], **more},
        timeout=60,
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def schedule(service: Service, name: str, **settings: object) -> None:
    """A schedule of the demo's topic; once a year unless it is said otherwise."""
    facts = service.facts
    httpx.put(
        f"{facts.base_url}/v1/ns/{facts.namespace}/schedules/{name}",
        headers={"authorization": f"Bearer {facts.api_key}"},
        json={"topic": "orders", "cron": "@yearly", "message": {"body": "x"}, **settings},
        timeout=60,
    ).raise_for_status()


def receive(service: Service, count: int) -> list[str]:
    """Receipts of messages that the demo's group gets."""
    facts = service.facts
    root = f"{facts.base_url}/v1/ns/{facts.namespace}"
    headers = {"authorization": f"Bearer {facts.api_key}"}
    got = httpx.post(
        f"{root}/topics/orders/groups/billing:receive",
        headers=headers,
        json={"max": count, "wait": "2s", "consumer_id": "browser-test"},
        timeout=60,
    )
    got.raise_for_status()
    receipts = [str(each["receipt"]) for each in got.json()["messages"]]
    settled = httpx.post(
        f"{root}/groups/billing:settle", headers=headers, json={"ack": receipts}, timeout=60
    )
    settled.raise_for_status()
    return receipts


def give_up(service: Service, group: str, *bodies: str) -> list[str]:
    """Ids of messages that the group has given up, for ``SCRIPT``, of a topic of its name."""
    facts = service.facts
    headers = {"authorization": f"Bearer {facts.api_key}"}
    with httpx.Client(
        base_url=f"{facts.base_url}/v1/ns/demo", headers=headers, timeout=60
    ) as client:

        def ask(method: str, path: str, body: object) -> httpx.Response:
            return client.request(method, path, json=body).raise_for_status()

        ask("PUT", f"/topics/{group}", {"queues": 1})
        ask("PUT", f"/groups/{group}", {})
        for body in bodies:
            ask("POST", f"/topics/{group}/messages", {"body": body})
        ids: list[str] = []
        while len(ids) < len(bodies):
            wanted = {"wait": "5s", "max": 10}
            path = f"/topics/{group}/groups/{group}:receive"
            received = ask("POST", path, wanted).json()["messages"]
            assert received
            ids += [message["id"] for message in received]
            letters = [{"receipt": each["receipt"], "reason": SCRIPT} for each in received]
            settled = ask("POST", f"/groups/{group}:settle", {"dead_letter": letters})
            assert not settled.json().get("failed"), settled.text
    return ids
