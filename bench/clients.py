"""What a produce costs the web process by how its client writes: CPU for each request, by turns.

one write ─────────▶ ┐
head, then body ───▶ ├─ web process of the service: CPU / requests, beside that of one write
http.client, … ────▶ ┘

Most clients write the head first and the body behind it. The service must not care.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import requests

from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.payloads import make_body
from bench.processes import Service, service_running

WORKLOAD: Final = "clients"
TARGET: Final = 0.9
TURNS: Final = 5  # of each client in one run
ONE_WRITE: Final = "one write"
Post = Callable[[], int]


async def measure(plan: Plan, base: Path) -> list[Row]:
    async with service_running(base) as service:
        web = [pid for name, pid in service.pids.items() if name.startswith("web")]
        turn_s = plan.duration_ms / 1_000 / TURNS
        with ExitStack() as stack:
            clients = {name: stack.enter_context(open_(service)) for name, open_ in CLIENTS.items()}
            costs: dict[str, list[float]] = {name: [] for name in clients}
            for turn in range(1 + plan.repeats * TURNS):
                for name, post in clients.items():
                    cost_us = _cost_us(post, web, turn_s)
                    if turn:  # the first only warms up
                        costs[name].append(cost_us)
    count = len(costs[ONE_WRITE])
    setting = f"1 KiB bodies, one connection, by turns, median of {count} turns; {plan.text}"
    medians = {name: sorted(taken)[len(taken) // 2] for name, taken in costs.items()}
    return [
        row_of(
            [Run(rate=medians[ONE_WRITE] / cost_us, extra={"us": round(cost_us, 1)})],
            workload=WORKLOAD,
            name=f"CPU of the web process for a produce by {ONE_WRITE} / by {name}",
            unit="ratio",
            setting=setting,
            target=TARGET,
        )
        for name, cost_us in medians.items()
        if name != ONE_WRITE
    ]


def _cost_us(post: Post, pids: list[int], seconds: float) -> float:
    before = sum(map(cpu_seconds, pids))
    deadline = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < deadline:
        status = post()
        if status != 201:
            raise MeasureFailed(f"a produce was answered with {status}")
        count += 1
    return (sum(map(cpu_seconds, pids)) - before) * 1e6 / max(1, count)


def _path(service: Service) -> str:
    return f"/v1/ns/{service.namespace}/topics/{service.topic}/messages"


def _content() -> bytes:
    return b'{"body":"%s"}' % make_body()


def _headers(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.api_key}", "Content-Type": "application/json"}


@contextmanager
def _raw(service: Service, *, writes: int) -> Iterator[Post]:
    parts = urlsplit(service.base_url)
    assert parts.hostname is not None
    content = _content()
    lines = [f"{name}: {value}" for name, value in _headers(service).items()]
    head = "\r\n".join(
        (f"POST {_path(service)} HTTP/1.1", f"Host: {parts.netloc}", *lines,
         f"Content-Length: {len(content)}", "", "")
    ).encode()  # fmt: skip
    with socket.create_connection((parts.hostname, parts.port or 80)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = peer.makefile("rb")

        def post() -> int:
            if writes == 1:
                peer.sendall(head + content)
            else:
                peer.sendall(head)
                peer.sendall(content)
            status = int(answers.readline().split()[1])
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.read(length)
            return status

        yield post


@contextmanager
def _http_client(service: Service) -> Iterator[Post]:
    parts = urlsplit(service.base_url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80)
    path, content, headers = _path(service), _content(), _headers(service)

    def post() -> int:
        connection.request("POST", path, content, headers)
        response = connection.getresponse()
        response.read()
        return response.status

    try:
        yield post
    finally:
        connection.close()


@contextmanager
def _httpx(service: Service) -> Iterator[Post]:
    path, content = _path(service), _content()
    with httpx.Client(base_url=service.base_url, headers=_headers(service)) as client:
        yield lambda: client.post(path, content=content).status_code


@contextmanager
def _requests(service: Service) -> Iterator[Post]:
    url, content = service.base_url + _path(service), _content()
    with requests.Session() as session:
        session.headers.update(_headers(service))
        yield lambda: session.post(url, data=content).status_code


CLIENTS: Final[dict[str, Callable[[Service], AbstractContextManager[Post]]]] = {
    ONE_WRITE: partial(_raw, writes=1),
    "head, then body": partial(_raw, writes=2),
    "http.client": _http_client,
    "httpx": _httpx,
    "requests": _requests,
}
