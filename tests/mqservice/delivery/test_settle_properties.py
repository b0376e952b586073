"""Receipts of every kind, mixed in any way, are each answered for; poison holds up nobody."""

from __future__ import annotations

import random
from collections import Counter

import httpx
import pytest

from mqservice.store import Dispatch
from tests.mqservice.delivery.browsing import put, settle
from tests.mqservice.delivery.engine_serving import real_group
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine(queue_count=3)

KINDS = ("good", "double", "stale", "forged", "foreign", "noise")
CODES = {
    "good": None, "double": None, "stale": "LEASE_EXPIRED", "forged": "RECEIPT_INVALID",
    "foreign": "RECEIPT_INVALID", "noise": "RECEIPT_INVALID",
}  # fmt: skip
RECEIVE_MAX = 256


def receive(api: httpx.Client, topic: str, group: str, **options: object) -> list[Json]:
    path = f"/v1/-/topics/{topic}/groups/{group}:receive"
    response = api.post(path, json={"wait": "0s", "max": RECEIVE_MAX, "lease": "60s", **options})
    assert response.status_code == 200, response.text
    messages: list[Json] = response.json()["messages"]
    return messages


def forged(receipt: str, chance: random.Random) -> str:
    """One letter is another; the last one has bits that mean nothing."""
    at = chance.randrange(len(receipt) - 1)
    letter = chance.choice([each for each in "ABCDwxyz0189-_" if each != receipt[at]])
    return receipt[:at] + letter + receipt[at + 1 :]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("verb", ["ack", "nack", "dead_letter", "extend"])
def test_each_receipt_of_a_mixture_is_answered_by_its_code(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, verb: str, seed: int
) -> None:
    chance = random.Random(f"{verb}{seed}")
    mine = real_group(server, engine_socket, f"mine-{topic}", max_reconsume_times=1)
    other = real_group(server, engine_socket, f"other-{topic}", max_reconsume_times=1)
    put(api, topic, *[{"body": str(n), "queue": n % 3} for n in range(60)])
    foreign = [message["receipt"] for message in receive(api, topic, other)]
    stale = [message["receipt"] for message in receive(api, topic, mine, max=20)]
    settle(api, mine, nack=[{"receipt": receipt, "delay": "0s"} for receipt in stale])
    good = {message["receipt"] for message in receive(api, topic, mine)}

    def has_all() -> bool:  # those given back come again when they have been moved
        good.update(message["receipt"] for message in receive(api, topic, mine))
        return len(good) == 60

    wait_until(has_all)
    fresh = sorted(good)
    chance.shuffle(fresh)

    chosen: list[tuple[str, str]] = []  # (kind, receipt)
    for _ in range(60):
        kind = chance.choice(KINDS)
        match kind:
            case "good":
                receipt = fresh.pop()
            case "double":
                before = [each for earlier, each in chosen if earlier == "good"]
                receipt = chance.choice(before or [fresh.pop()])
            case "stale":
                receipt = chance.choice(stale)
            case "forged":
                receipt = forged(chance.choice(foreign), chance)
            case "foreign":
                receipt = chance.choice(foreign)
            case _:
                receipt = chance.choice(["", "r1", "ä", "A" * 600, "=" * 60])
        chosen.append((kind, receipt))
    given = [receipt for _, receipt in chosen]
    parts = {verb: given if verb == "ack" else [{"receipt": receipt} for receipt in given]}

    answer = settle(api, mine, **parts)

    valid = {receipt for kind, receipt in chosen if CODES[kind] is None}
    done = {
        "ack": answer["acked"],
        "nack": answer["nacked"],
        "dead_letter": answer["dead_lettered"],
        "extend": len({each["receipt"] for each in answer["extended"]}),
    }
    assert done[verb] == len(valid)
    assert sum(count for name, count in done.items() if name != verb) == 0
    failed = {each["receipt"]: each["code"] for each in answer["failed"]}
    assert failed == {receipt: CODES[kind] for kind, receipt in chosen if CODES[kind] is not None}
    # And nothing happened to anybody else's: all of theirs are settled now, each exactly once.
    assert settle(api, other, ack=foreign)["acked"] == 60


def test_a_thousand_receipts_in_one_call(
    server: Server, engine_socket: str, api: httpx.Client, topic: str
) -> None:
    group = real_group(server, engine_socket, f"many-{topic}", max_reconsume_times=1)
    put(api, topic, *[{"body": str(n), "queue": n % 3} for n in range(1_000)])
    receipts: list[str] = []
    while messages := receive(api, topic, group):
        receipts += [message["receipt"] for message in messages]
    assert len(set(receipts)) == 1_000

    for _ in range(2):  # the second time is the repeat of a call whose answer was lost
        answer = settle(api, group, ack=receipts)
        assert (answer["acked"], answer["failed"]) == (1_000, [])
    too_many = api.post(f"/v1/-/groups/{group}:settle", json={"ack": [*receipts, "x"]})
    assert (too_many.status_code, too_many.json()["code"]) == (400, "BAD_REQUEST")
    assert receive(api, topic, group) == []


MODES: dict[str, dict[str, object]] = {
    "shared": {},
    "exclusive": {"dispatch": Dispatch.EXCLUSIVE},
    "ordered": {"dispatch": Dispatch.EXCLUSIVE, "is_ordered": True},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_poison_message_ends_in_the_dead_letters_and_its_queue_continues(
    server: Server, engine_socket: str, api: httpx.Client, topic: str, mode: str
) -> None:
    group = real_group(
        server, engine_socket, f"{mode}-{topic}", max_reconsume_times=1, **MODES[mode]
    )
    bodies = ["poison", *map(str, range(8))]
    put(api, topic, *[{"body": body, "queue": 0} for body in bodies])
    seen: Counter[str] = Counter()
    acked: list[str] = []

    def is_through() -> bool:
        for message in receive(api, topic, group, max=2, consumer_id="worker"):
            seen[message["body"]] += 1
            if message["body"] == "poison":
                bad = [{"receipt": message["receipt"], "delay": "0s", "reason": "cannot be read"}]
                assert settle(api, group, nack=bad)["nacked"] == 1
            else:
                assert settle(api, group, ack=[message["receipt"]])["acked"] == 1
                acked.append(message["body"])
        return len(acked) == 8 and bool(dead())

    def dead() -> list[Json]:
        messages: list[Json] = api.get(f"/v1/-/groups/{group}/dlq").json()["messages"]
        return messages

    wait_until(is_through)
    [letter] = dead()
    assert (letter["body"], letter["attempts"], letter["reason"]) == ("poison", 2, "cannot be read")
    assert seen == {body: 2 if body == "poison" else 1 for body in bodies}
    assert acked == [str(n) for n in range(8)]
    put(api, topic, {"body": "later", "queue": 0})
    [later] = receive(api, topic, group, wait="20s", consumer_id="worker")
    assert later["body"] == "later"
