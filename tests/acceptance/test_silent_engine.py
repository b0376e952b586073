"""An engine that stands still: the service says so everywhere, and recovers with it."""

from __future__ import annotations

import os
import signal

import httpx
import pytest

from tests.services import Service, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


def test_a_silent_engine_is_reported_by_readiness_data_plane_and_control_plane(
    service: Service,
) -> None:
    facts = service.facts
    namespace = f"/v1/ns/{facts.namespace}"
    with httpx.Client(
        base_url=facts.base_url,
        headers={"authorization": f"Bearer {facts.api_key}"},
        timeout=60,
        trust_env=False,
    ) as api:

        def produce() -> httpx.Response:
            return api.post(f"{namespace}/topics/{facts.topic}/messages", json={"body": "x"})

        assert api.get("/readyz").status_code == 200
        assert api.put(f"{namespace}/topics/silent", json={"queues": 1}).status_code == 201
        engine = facts.pids["engine"]
        os.kill(engine, signal.SIGSTOP)
        try:
            wait_until(
                lambda: api.get("/readyz").json()["parts"]["engine"] == "down",
                30, "readiness says that the engine is down",
            )  # fmt: skip
            wait_until(
                lambda: produce().json()["code"] == "ENGINE_UNAVAILABLE",
                30, "producing is refused without asking the engine",
            )  # fmt: skip
            refusals = [
                produce(),
                api.put(f"{namespace}/topics/silent-too", json={"queues": 1}),
                api.get(f"{namespace}/groups/{facts.group}/offsets"),
                api.post(f"{namespace}/topics/{facts.topic}/groups/{facts.group}:receive"),
            ]
            log = service.log.read_text(errors="replace")
        finally:
            os.kill(engine, signal.SIGCONT)

        for refusal in refusals:
            assert refusal.status_code == 503, refusal.text
            problem = refusal.json()
            assert (problem["code"], problem["retryable"]) == ("ENGINE_UNAVAILABLE", True)
            assert "retry-after" in refusal.headers
        assert '"action":"engine_silent"' in log
        wait_until(lambda: api.get("/readyz").status_code == 200, 30, "it is ready again")
        wait_until(lambda: produce().status_code == 201, 30, "producing works again")
        assert api.put(f"{namespace}/topics/silent-too", json={"queues": 1}).status_code == 201
