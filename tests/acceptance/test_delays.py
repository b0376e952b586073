"""Messages fall due while each process of the service is killed: none is early, none lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any  # decoded JSON

import httpx
import pytest

from tests.services import Service, wait_until

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]
TOPIC = "delayed"
PACE_TOPIC = "delayed-pace"
PACE_BATCHES = 2
QUEUES = 4
COUNT = 50_000
BATCH = 1_000
LEAD_MS_MIN = 15_000  # and twice what all of it takes here
DUE_WITHIN_MS = 15_000
KILLS = ("worker", "engine", "valkey")
HEAL_WAIT_S = 120
ARRIVE_WAIT_S = 150


class Api:
    """Calls that are tried again while processes are away; each may be, without a second effect."""

    def __init__(self, service: Service) -> None:
        facts = service.facts
        self._http = httpx.Client(
            base_url=f"{facts.base_url}/v1/ns/{facts.namespace}",
            headers={"authorization": f"Bearer {facts.api_key}"},
            timeout=60,
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def put_topic(self, topic: str) -> None:
        response = self._http.put(f"topics/{topic}", json={"queues": QUEUES})
        assert response.status_code == 201, response.text

    def produce(self, messages: list[dict[str, object]], topic: str = TOPIC) -> list[str]:
        """Ids of messages that are all accepted."""
        response = self._http.post(f"topics/{topic}/messages:batch", json=messages)
        assert response.status_code == 201, response.text
        ids: list[str] = [result["id"] for result in response.json()["results"]]
        return ids

    def find(self, path: str, **query: int) -> dict[str, Any] | None:
        """An answer, or None while nobody gives one."""
        try:
            response = self._http.get(path, params=query)
        except httpx.TransportError:
            return None
        if response.status_code != 200:
            return None
        answer: dict[str, Any] = response.json()
        return answer


def test_50_000_delayed_messages_survive_the_death_of_every_process(service: Service) -> None:
    with Api(service) as api:
        api.put_topic(TOPIC)
        first_ms = time.time_ns() // 1_000_000 + max(LEAD_MS_MIN, 2 * _produce_ms(api))
        due: dict[str, int] = {}
        for start in range(0, COUNT, BATCH):
            times = [first_ms + n * DUE_WITHIN_MS // COUNT for n in range(start, start + BATCH)]
            ids = api.produce([{"body": f"{at}", "deliver_at": _rfc3339(at)} for at in times])
            due |= dict(zip(ids, times, strict=True))
        assert time.time_ns() // 1_000_000 < first_ms, "not all was put before the first was due"

        pause = threading.Event()  # never set
        pause.wait((first_ms - time.time_ns() // 1_000_000) / 1_000)
        for name in KILLS:
            pid = service.facts.pids[name]
            os.kill(pid, signal.SIGKILL)
            wait_until(partial(service.is_back, name, pid), HEAL_WAIT_S, f"{name} is back")
            pause.wait(0.5)
        # PostgreSQL ends all its sessions and recovers when one of its processes is killed.
        os.kill(_a_child_of(service.facts.pids["postgres"]), signal.SIGKILL)
        ready = f"{service.facts.base_url}/readyz"
        wait_until(lambda: httpx.get(ready, timeout=60).is_success, HEAL_WAIT_S, "all is ready")

        wait_until(lambda: _arrived_count(api) >= COUNT, ARRIVE_WAIT_S, "all have arrived")
        arrived = _arrived(api)

    times_each = Counter(message["id"] for message in arrived)
    assert set(times_each) == set(due)
    assert set(times_each.values()) == {1}, "a message that is moved is in one place, not in two"
    early = [m["id"] for m in arrived if _ms(m["stored_at"]) < due[m["id"]]]
    assert early == []
    late_ms = sorted(_ms(message["stored_at"]) - due[message["id"]] for message in arrived)
    print(f"lateness: median {late_ms[COUNT // 2]} ms, most {late_ms[-1]} ms")


def _produce_ms(api: Api) -> int:
    """About how long it takes to produce all, by what a few batches take on this machine.

    None of these may stay in the schedule: with many there, no group knows its retries.
    """
    api.put_topic(PACE_TOPIC)
    api.produce([{"body": "first", "delay": "1s"}], PACE_TOPIC)
    began_at = time.monotonic()
    for _ in range(PACE_BATCHES):
        api.produce([{"body": f"{n}", "delay": "1s"} for n in range(BATCH)], PACE_TOPIC)
    return round((time.monotonic() - began_at) * 1_000) * COUNT // (PACE_BATCHES * BATCH)


def _a_child_of(parent_pid: int) -> int:
    children = Path(f"/proc/{parent_pid}/task/{parent_pid}/children").read_text().split()
    return int(children[0])


def _arrived_count(api: Api) -> int:
    answers = [api.find(f"topics/{TOPIC}/queues/{queue}/messages", offset=0, max=1)
               for queue in range(QUEUES)]  # fmt: skip
    return sum(answer["max_offset"] for answer in answers if answer is not None)


def _arrived(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for queue in range(QUEUES):
        offset, end = 0, 1
        while offset < end:
            path = f"topics/{TOPIC}/queues/{queue}/messages"
            answer = api.find(path, offset=offset, max=100)
            assert answer is not None
            found += answer["messages"]
            offset, end = answer["next_offset"], answer["max_offset"]
    return found


def _rfc3339(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)
