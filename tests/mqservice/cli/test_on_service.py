"""The commands against the whole service: the same bytes out as in."""

from __future__ import annotations

import hashlib
import os
from collections import Counter

import httpx
import msgspec
import pytest

from mqservice.cli.messages import Delivered, encode_line, parse_line
from tests.mqservice.cli.commands import WAIT_S, run
from tests.services import Service, service_environment, wait_until

pytestmark = pytest.mark.acceptance
BODIES = [
    b"plain",
    b"\x00",
    b"\xff\xfe binary \x80",
    "žluťoučký 🐇".encode(),
    b"line one\nline two\r\n",
    b'{"order": 42,  "spaced":true }',
    bytes(range(256)) * 64,
    b"x" * (600 * 1024),
]


def mqservice(service: Service, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a command that finds the service by its data directory; its stdout."""
    ended = run(arguments, service_environment(service.data_dir), stdin)
    assert ended.code == 0, ended.err
    return ended.out


def hashes(bodies: list[bytes]) -> Counter[str]:
    return Counter(hashlib.sha256(body).hexdigest() for body in bodies)


@pytest.mark.parametrize("protocol", [(), ("--json-frames",)])
def test_messages_come_out_byte_for_byte(service: Service, protocol: tuple[str, ...]) -> None:
    topic = f"cli-{os.urandom(4).hex()}"
    mqservice(service, "topic", "create", topic, "--queues", "2")
    shown = Delivered(
        id="", queue=0, offset=0, body=b"", tag="t", keys=["k"], properties={"p": "v"}
    )
    lines = b"".join(
        encode_line(msgspec.structs.replace(shown, body=body), topic="") for body in BODIES
    )
    printed = mqservice(service, "produce", topic, "-o", "ndjson", stdin=lines)
    stored = [msgspec.json.decode(line) for line in printed.splitlines()]
    assert [line["outcome"] for line in stored] == ["stored"] * len(BODIES)

    out = mqservice(
        service,
        *("consume", topic, "-g", service.facts.group, "--ack", "-o", "ndjson", *protocol),
        *("--count", str(len(BODIES)), "--idle-exit", "20s"),
    )
    received = [parse_line(line, line_number=1) for line in out.splitlines()]
    assert hashes([message.body for message in received]) == hashes(BODIES)
    assert {(message.tag, *message.keys) for message in received} == {("t", "k")}
    assert all(message.properties == {"p": "v"} for message in received)

    nothing = mqservice(
        service, "consume", topic, "-g", service.facts.group, "--ack", "--idle-exit", "500ms"
    )
    assert nothing == b""


def test_key_without_a_namespace_uses_its_own(service: Service) -> None:
    facts = service.facts
    environ = {**service_environment(service.data_dir), "MQ_DATA_DIR": "/nonexistent"}
    environ |= {"MQ_BASE_URL": facts.base_url, "MQ_API_KEY": facts.api_key}
    ended = run(("topic", "list", "-o", "ndjson"), environ)
    assert ended.code == 0, ended.err
    names = [msgspec.json.decode(line)["name"] for line in ended.out.splitlines()]
    assert facts.topic in names


def test_browse_finds_what_was_produced_and_leaves_it_there(service: Service) -> None:
    topic = f"cli-{os.urandom(4).hex()}"
    mqservice(service, "topic", "create", topic, "--queues", "3")
    for number in range(6):
        key, tag = f"k{number % 2}", f"t{number % 3}"
        mqservice(service, "produce", topic, f"m{number}", "-k", key, "--tag", tag)

    def browsed(*arguments: str) -> list[dict[str, str]]:
        lines = mqservice(service, "browse", topic, "-o", "ndjson", *arguments).splitlines()
        return [msgspec.json.decode(line) for line in lines]

    everything = browsed()
    assert [line["body"] for line in everything] == [f"m{number}" for number in range(6)]
    assert [line["body"] for line in browsed("-k", "k1")] == ["m5", "m3", "m1"]
    assert [line["body"] for line in browsed("--tag", "t0 || t1", "--limit", "3")] == [
        "m0",
        "m1",
        "m3",
    ]
    assert browsed("--from", everything[4]["stored_at"], "--to", everything[4]["stored_at"])
    assert browsed("--id", everything[2]["id"]) == [everything[2]]
    assert b"m2" in mqservice(service, "browse", topic, "--id", everything[2]["id"])
    taken = mqservice(
        service, "consume", topic, "-g", service.facts.group, "--ack", "-c", "6", "-q"
    )
    assert sorted(taken.split()) == [f"m{number}".encode() for number in range(6)]


def test_looking_without_ack_leaves_the_messages_there(service: Service) -> None:
    topic = f"cli-{os.urandom(4).hex()}"
    mqservice(service, "topic", "create", topic)
    mqservice(service, "produce", topic, "a", "b")
    common = ("consume", topic, "-g", service.facts.group, "--count", "2", "--idle-exit", "20s")
    looked = mqservice(service, *common)
    taken = mqservice(service, *common, "--ack")
    assert sorted(looked.split()) == sorted(taken.split()) == [b"a", b"b"]


def test_dead_letters_are_redriven_by_beat_and_worker(service: Service) -> None:
    topic, facts = f"cli-{os.urandom(4).hex()}", service.facts
    mqservice(service, "topic", "create", topic)
    mqservice(service, "produce", topic, "a", "b", "c")
    with httpx.Client(
        base_url=facts.base_url, headers={"authorization": f"Bearer {facts.api_key}"}, timeout=60
    ) as client:
        receipts: list[str] = []
        while len(receipts) < 3:
            path = f"/v1/-/topics/{topic}/groups/{facts.group}:receive"
            received = client.post(path, json={"wait": "10s"}).json()["messages"]
            receipts += [message["receipt"] for message in received]
        dead = [{"receipt": receipt, "reason": "by the test"} for receipt in receipts]
        settled = client.post(f"/v1/-/groups/{facts.group}:settle", json={"dead_letter": dead})
        assert settled.json()["dead_lettered"] == 3

    def listed() -> list[bytes]:
        return mqservice(service, "dlq", "list", facts.group).splitlines()

    wait_until(lambda: len(listed()) == 3, WAIT_S, "three messages are dead letters")
    assert all(b"by the test" in line for line in listed())
    counted = mqservice(service, "dlq", "redrive", facts.group, "--all", "--dry-run")
    assert counted == f"3  {topic}\n".encode()
    task = mqservice(service, "dlq", "redrive", facts.group, "--all", "--rate", "1", "--wait")
    assert task.startswith(b"task_")
    assert listed() == []
    taken = mqservice(service, "consume", topic, "-g", facts.group, "--ack", "-c", "3", "-q")
    assert sorted(taken.split()) == [b"a", b"b", b"c"]


def test_a_group_is_made_changed_paused_and_deleted(service: Service) -> None:
    name = f"cli-{os.urandom(4).hex()}"
    mqservice(service, "topic", "create", name, "--queues", "1")
    mqservice(service, "group", "create", name, "--max-attempts", "unlimited", "--delay", "5s")
    mqservice(service, "group", "update", name, "--lease", "2m", "--retry", "exponential")
    mqservice(service, "group", "pause", name)

    def shown() -> dict[str, object]:
        found: dict[str, object] = msgspec.json.decode(
            mqservice(service, "group", "show", name, "-o", "ndjson")
        )
        return found

    group = shown()
    assert (group["max_attempts"], group["lease"], group["paused"]) == (None, "2m", True)
    assert group["retry"] == {"policy": "exponential", "start": "5s", "factor": 2.0, "cap": "2h"}
    mqservice(service, "produce", name, "one")
    consume = ("consume", name, "-g", name, "--ack", "-q", "--idle-exit")
    assert mqservice(service, *consume, "1s") == b""
    mqservice(service, "group", "resume", name)
    assert mqservice(service, *consume, "30s", "--count", "1") == b"one\n"
    mqservice(service, "group", "delete", name, "--yes")
    mqservice(service, "group", "create", name)
    assert mqservice(service, *consume, "30s", "--count", "1") == b"one\n"
    mqservice(service, "topic", "delete", name, "--yes")
    mqservice(service, "topic", "create", name, "--queues", "1")
    assert mqservice(service, *consume, "1s") == b""


def test_a_drill_without_a_failure_finds_all_that_it_sent(service: Service) -> None:
    topic = f"drill-{os.urandom(4).hex()}"
    out = mqservice(service, "drill", "failover", "--topic", topic, "--count", "3").decode()
    assert "acknowledged                       3 (synced)" in out
    assert "acknowledged and lost              0" in out
