"""More than the service takes: a tenant beyond its quota, and requests as fast as they go.

Every request has an answer, a refusal says when to come again (B2), and the others go on (I2).
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import httpx

from bench.second_tenant import second_tenant_of
from tests.acceptance.nemesis.site import Site
from tests.services import client_of

FLOOD_S: Final = (3.0, 6.0)
BATCH: Final = 100
BODY: Final = "noise " * 16
ANSWER_S_MAX: Final = 60
NEIGHBOUR_CONNECTIONS: Final = 4
NEIGHBOUR_QUOTA: Final = 100  # messages a second
OVERLOAD_CONNECTIONS: Final = 32
RETRY_AFTER: Final = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
STORED: Final = HTTPStatus.CREATED


@dataclass(frozen=True, slots=True)
class NoisyNeighbour:
    """Another tenant that sends as fast as it can; it is refused."""

    name: str = "a tenant beyond its quota"

    def fire(self, site: Site) -> None:
        tenant = second_tenant_of(site.service.facts.pids["web-1"], "noisy", NEIGHBOUR_QUOTA)
        path = f"{tenant.namespace}/topics/{tenant.topic}"
        answers = _flood(site, self.name, path, tenant.api_key, NEIGHBOUR_CONNECTIONS)
        refused_count = answers["429"]
        site.load.run.fired[self.name] += refused_count
        if not refused_count:
            site.load.run.anomalies.append(("fault-never-fired", f"{self.name}: {answers}"))


@dataclass(frozen=True, slots=True)
class Overload:
    """The tenant of the load sends to another topic of its own over many connections at once."""

    name: str = "overload"

    def fire(self, site: Site) -> None:
        facts = site.facts
        with client_of(facts) as mq:
            mq.topics.create("overload", queues=4)
        path = f"{facts.namespace}/topics/overload"
        answers = _flood(site, self.name, path, facts.api_key, OVERLOAD_CONNECTIONS)
        site.load.run.fired[self.name] += answers.total()


def _flood(site: Site, name: str, path: str, api_key: str, connections: int) -> Counter[str]:
    """How often which status was answered; with anomalies for what must not be."""
    over = threading.Event()
    answers: Counter[str] = Counter()
    with ThreadPoolExecutor(connections) as pool:
        url = f"{site.facts.base_url}/v1/ns/{path}/messages:batch"
        floods = [pool.submit(_send, url, api_key, over) for _ in range(connections)]
        try:
            # It has to last: nothing tells when it has lasted.
            over.wait(site.draw.uniform(*FLOOD_S))
            site.must_flow(name, "stopped")
        finally:
            over.set()
        for flood in floods:
            answers += flood.result()
    forbidden = {text: count for text, count in answers.items() if not text.isdigit()}
    if forbidden:
        site.load.run.anomalies.append(("badly-refused", f"{name}: {forbidden}"))
    site.must_heal(f"{name} is over")
    return answers


def _send(url: str, api_key: str, over: threading.Event) -> Counter[str]:
    """Answers by status; what no client should see is in words."""
    answers: Counter[str] = Counter()
    headers = {"authorization": f"Bearer {api_key}"}
    with httpx.Client(headers=headers, timeout=ANSWER_S_MAX) as api:
        while not over.is_set():
            try:
                answer = api.post(url, json=[{"body": BODY}] * BATCH)
            except httpx.TransportError as error:
                answers[f"no answer: {error!r}"] += 1
                continue
            status = answer.status_code
            is_known = status == STORED or (
                status in RETRY_AFTER and "retry-after" in answer.headers
            )
            answers[str(status) if is_known else f"{status}: {answer.text[:200]}"] += 1
    return answers
