"""One mistake has one code, whichever route it is made on: a table of both planes together."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.mqservice.access.world import ACME, Names, World
from tests.people import People

TIME: Final = "2026-11-21T09:00:00Z"
TOPIC: Final = "topics/{topic}"
GROUP: Final = "groups/{group}"
RECEIVE: Final = f"{TOPIC}/{GROUP}:receive"
SEEK: Final = f"{GROUP}:seek"


class Mistake(NamedTuple):
    """``path`` is below the namespace; ``status``, ``code``: what each of its requests gets."""

    method: str
    path: str
    body: object = None


# mistake -> (status, code), and where it can be made
TABLE: Final[dict[str, tuple[int, str, list[Mistake]]]] = {
    "unknown topic": (404, "TOPIC_NOT_FOUND", [
        Mistake("POST", "topics/absent/messages", {"body": "x"}),
        Mistake("POST", "topics/absent/messages:batch", [{"body": "x"}]),
        Mistake("GET", "topics/absent/messages"),
        Mistake("GET", "topics/absent/messages/01"),
        Mistake("GET", "topics/absent/queues/0/messages?offset=0"),
        Mistake("GET", f"topics/absent/queues/0/offset?time={TIME}"),
        Mistake("GET", "topics/absent/scheduled"),
        Mistake("POST", f"topics/absent/{GROUP}:receive", {"wait": "0s"}),
        Mistake("GET", "topics/absent"),
        Mistake("DELETE", "topics/absent"),
        Mistake("POST", SEEK, {"topic": "absent", "to": "earliest"}),
        Mistake("POST", f"{GROUP}/offsets:commit", {"topic": "absent", "queue": 0, "offset": 0}),
        Mistake("GET", f"{GROUP}/offsets?topic=absent"),
        Mistake("GET", f"{GROUP}/lag?topic=absent"),
    ]),
    "unknown group": (404, "GROUP_NOT_FOUND", [
        Mistake("POST", f"{TOPIC}/groups/absent:receive", {"wait": "0s"}),
        Mistake("POST", "groups/absent:settle", {"ack": ["x"]}),
        Mistake("GET", "groups/absent/dlq"),
        Mistake("GET", "groups/absent"),
        Mistake("DELETE", "groups/absent"),
        Mistake("POST", "groups/absent:seek", {"topic": "{topic}", "to": "earliest"}),
        Mistake("GET", "groups/absent/offsets"),
        Mistake("GET", "groups/absent/lag"),
        Mistake("POST", "groups/absent/dlq:purge", {"all": True}),
    ]),
    "a queue that the topic does not have": (404, "QUEUE_NOT_FOUND", [
        Mistake("POST", f"{TOPIC}/messages", {"body": "x", "queue": 9}),
        Mistake("POST", f"{TOPIC}/messages", {"body": "x", "queue": -1}),
        Mistake("POST", f"{TOPIC}/messages:batch", [{"body": "x"}, {"body": "x", "queue": 9}]),
        Mistake("GET", f"{TOPIC}/messages?queue=9"),
        Mistake("GET", f"{TOPIC}/messages?queue=-1"),
        Mistake("GET", f"{TOPIC}/messages?queue=9&key=k"),
        Mistake("GET", f"{TOPIC}/queues/9/messages?offset=0"),
        Mistake("GET", f"{TOPIC}/queues/9/offset?time={TIME}"),
        Mistake("POST", SEEK, {"topic": "{topic}", "to": {"offset": 0, "queue": 9}}),
        Mistake("POST", SEEK, {"topic": "{topic}", "to": "latest", "queues": [9]}),
        Mistake("POST", f"{GROUP}/offsets:commit", {"topic": "{topic}", "queue": 9, "offset": 0}),
    ]),
    "an offset that is no offset": (400, "BAD_REQUEST", [
        Mistake("GET", f"{TOPIC}/queues/0/messages?offset=-1"),
        Mistake("GET", f"{TOPIC}/messages?queue=0&offset=-1"),
        Mistake("POST", SEEK, {"topic": "{topic}", "to": {"offset": -1, "queue": 0}}),
        Mistake("POST", SEEK, {"topic": "{topic}", "to": {"offset": 99, "queue": 0}}),
        Mistake("POST", f"{GROUP}/offsets:commit", {"topic": "{topic}", "queue": 0, "offset": -1}),
    ]),
    "a time that is no time": (400, "BAD_REQUEST", [
        Mistake("GET", f"{TOPIC}/messages?from=yesterday"),
        Mistake("GET", f"{TOPIC}/queues/0/offset?time=yesterday"),
        Mistake("GET", f"{GROUP}/dlq?from=yesterday"),
        Mistake("POST", SEEK, {"topic": "{topic}", "to": {"time": "yesterday"}}),
    ]),
    "a time of delivery that is none": (400, "ILLEGAL_DELIVERY_TIME", [
        Mistake("POST", f"{TOPIC}/messages", {"body": "x", "delay": "soon"}),
        Mistake("POST", f"{TOPIC}/messages", {"body": "x", "deliver_at": "soon"}),
        Mistake("POST", f"{TOPIC}/messages:batch", [{"body": "x", "delay": "soon"}]),
        Mistake("POST", "scheduled/{handle}:reschedule", {"delay": "soon"}),
    ]),
    "a lease that is none": (400, "ILLEGAL_LEASE", [
        Mistake("POST", RECEIVE, {"lease": "soon"}),
        Mistake("POST", RECEIVE, {"lease_ms": 0}),
        Mistake("POST", f"{GROUP}:settle", {"extend": [{"receipt": "x", "lease": "0s"}]}),
    ]),
    "a cursor of nobody": (400, "CURSOR_INVALID", [
        Mistake("GET", f"{TOPIC}/messages?cursor=x"),
        Mistake("GET", f"{TOPIC}/scheduled?cursor=x"),
        Mistake("GET", f"{GROUP}/dlq?cursor=x"),
    ]),
    "too many at a time": (400, "BAD_REQUEST", [
        Mistake("POST", RECEIVE, {"max": 1_000_000}),
        Mistake("GET", f"{TOPIC}/messages?limit=1000000"),
        Mistake("GET", f"{TOPIC}/queues/0/messages?offset=0&max=1000000"),
        Mistake("GET", f"{TOPIC}/scheduled?limit=1000000"),
        Mistake("GET", f"{GROUP}/dlq?limit=1000000"),
        Mistake("GET", "topics?limit=1000000"),
        Mistake("GET", "groups?limit=1000000"),
    ]),
    "a filter that is none": (400, "ILLEGAL_FILTER", [
        Mistake("POST", RECEIVE, {"filter": "a ||"}),
        Mistake("POST", RECEIVE, {"filter": ""}),
        Mistake("POST", RECEIVE, {"filter": {"sql": "a >"}}),
        Mistake("POST", RECEIVE, {"tag": "a ||"}),
        Mistake("GET", f"{TOPIC}/messages?filter=a%20%7C%7C"),
        Mistake("GET", f"{TOPIC}/messages?filter="),
        Mistake("GET", f"{TOPIC}/messages?filter=" + "%7B%22sql%22%3A%22a%20%3E%22%7D"),
        Mistake("GET", f"{TOPIC}/messages?sql=a%20%3E"),
        Mistake("GET", f"{TOPIC}/messages?filter=amount%20%3E%205"),
        Mistake("GET", f"{TOPIC}/messages?tag=a%20%7C%7C"),
        Mistake("GET", f"{TOPIC}/queues/0/messages?offset=0&tag=a%20%7C%7C"),
        Mistake("GET", f"{GROUP}/dlq?tag=a%20%7C%7C"),
    ]),
    "a type that cannot be made": (400, "ILLEGAL_SETTING", [
        Mistake("PUT", "topics/new", {"type": "transaction"}),
        Mistake("PUT", TOPIC, {"type": "transaction"}),
        Mistake("POST", "definitions:import", {
            "version": 1, "topics": [{"name": "new", "type": "transaction"}],
        }),
    ]),
}  # fmt: skip


async def test_one_mistake_has_one_code_on_every_route(
    engine: str, valkey_server: str, people: People
) -> None:
    wrong: list[str] = []
    async with World(people).open() as world:
        names = {**world.names[ACME], "handle": await world.new_handle(ACME)}
        for mistake, (status, code, places) in TABLE.items():
            for method, path, body in places:
                answer = await world.call(
                    method, f"/v1/ns/{ACME}/{filled(path, names)}", world.credentials["owner"],
                    filled_body(body, names),
                )  # fmt: skip
                found = answer.status_code, answer.json().get("code")
                if found != (status, code):
                    wrong.append(f"{mistake}: {method} {path} {body}: {found} {answer.text[:200]}")
    assert wrong == []


def filled(text: str, names: Names) -> str:
    """``text`` with its ``{topic}`` and the like filled in."""
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def filled_body(body: object, names: Names) -> object:
    if isinstance(body, dict):
        return {key: filled_body(value, names) for key, value in body.items()}
    return filled(body, names) if isinstance(body, str) else body
