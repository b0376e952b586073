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

import httpx
import pytest
from mqservice_client import Client
from mqservice_client.api_types import StoredMessage

from tests.services import Service, client_of, wait_until

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


def test_50_000_delayed_messages_survive_the_death_of_every_process(service: Service) -> None:
    with client_of(service.facts) as mq:
        mq.topics.create(TOPIC, queues=QUEUES)
        first_ms = time.time_ns() // 1_000_000 + max(LEAD_MS_MIN, 2 * _produce_ms(mq))
        due: dict[str, int] = {}
        for start in range(0, COUNT, BATCH):
            times = [first_ms + n * DUE_WITHIN_MS // COUNT for n in range(start, start + BATCH)]
            with mq.batch(TOPIC, messages_max=BATCH, linger="1s") as batch:
                sent = [(batch.send(f"{at}", deliver_at=_time(at)), at) for at in times]
            due |= {each.result().id: at for each, at in sent}
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

        wait_until(lambda: _arrived_count(mq) >= COUNT, ARRIVE_WAIT_S, "all have arrived")
        arrived = _arrived(mq)

    times_each = Counter(message.id for message in arrived)
    assert set(times_each) == set(due)
    assert set(times_each.values()) == {1}, "a message that is moved is in one place, not in two"
    early = [m.id for m in arrived if _ms(m.stored_at) < due[m.id]]
    assert early == []
    late_ms = sorted(_ms(message.stored_at) - due[message.id] for message in arrived)
    print(f"lateness: median {late_ms[COUNT // 2]} ms, most {late_ms[-1]} ms")


def _produce_ms(mq: Client) -> int:
    """About how long it takes to produce all, by what a few batches take on this machine.

    None of these may stay in the schedule: with many there, no group knows its retries.
    """
    mq.topics.create(PACE_TOPIC, queues=QUEUES)
    mq.send(PACE_TOPIC, "first", delay="1s")
    began_at = time.monotonic()
    for _ in range(PACE_BATCHES):
        with mq.batch(PACE_TOPIC, messages_max=BATCH, linger="1s") as batch:
            for number in range(BATCH):
                batch.send(f"{number}", delay="1s")
    return round((time.monotonic() - began_at) * 1_000) * COUNT // (PACE_BATCHES * BATCH)


def _a_child_of(parent_pid: int) -> int:
    children = Path(f"/proc/{parent_pid}/task/{parent_pid}/children").read_text().split()
    return int(children[0])


def _arrived_count(mq: Client) -> int:
    pages = [mq.messages.pull(TOPIC, queue, offset=0, max=1) for queue in range(QUEUES)]
    return sum(page.max_offset for page in pages)


def _arrived(mq: Client) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    for queue in range(QUEUES):
        offset, end = 0, 1
        while offset < end:
            page = mq.messages.pull(TOPIC, queue, offset=offset, max=100)
            found += page.messages
            offset, end = page.next_offset, page.max_offset
    return found


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)
