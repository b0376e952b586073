"""Each process but PostgreSQL killed in turn: it comes back, and the service goes on."""

from __future__ import annotations

import os
import signal

import httpx
import pytest

from tests.services import Service, wait_until

pytestmark = pytest.mark.acceptance
HEAL_WAIT_S = 120


def is_produced(service: Service) -> bool:
    facts = service.facts
    try:
        answer = httpx.post(
            f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{facts.topic}/messages",
            headers={"authorization": f"Bearer {facts.api_key}"},
            json={"body": "still here"},
            timeout=60,
        )
    except httpx.TransportError:
        return False
    return answer.status_code == 201


@pytest.mark.parametrize("name", ["valkey", "clock", "worker", "beat", "web-1", "engine"])
def test_a_killed_process_comes_back_and_messages_are_taken(service: Service, name: str) -> None:
    pid = service.facts.pids[name]

    os.kill(pid, signal.SIGKILL)

    wait_until(
        lambda: service.facts.pids.get(name) not in (None, pid), HEAL_WAIT_S, f"{name} is back"
    )
    wait_until(lambda: is_produced(service), HEAL_WAIT_S, "a message is taken")
    ready = f"{service.facts.base_url}/readyz"
    wait_until(lambda: httpx.get(ready, timeout=60).is_success, HEAL_WAIT_S, "all is ready")
