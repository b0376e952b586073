"""A real Prometheus reads a real service by the example of ``deploy/``: data, and an alert."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mqservice.supervisor.quickstart import Quickstart
from storage_engine.server.engine_metrics import replica_metrics_text
from storage_engine.wire.role import Phase, RoleStatus
from tests.deploy.monitoring_files import (
    ADDED_LABELS,
    ADDED_METRICS,
    RULES,
    SCRAPES,
    queries,
    rules,
    uses,
)
from tests.ports import find_steady_port
from tests.services import Service, wait_until
from tests.storage_engine.faults.machine import need_prometheus

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

START_WAIT_S = 60
SAMPLES_WAIT_S = 120  # a sample of a busy machine is late


@pytest.fixture(scope="module")
def busy(service: Service) -> Quickstart:
    """The facts of a service whose demo group has taken messages, failed and settled."""
    facts = service.facts
    with data_plane(facts) as api:
        topic = f"/v1/ns/{facts.namespace}/topics/{facts.topic}"
        batch = [{"body": str(index)} for index in range(20)]
        assert api.post(f"{topic}/messages:batch", json=batch).status_code == 201
        receive = f"{topic}/groups/{facts.group}:receive"
        messages = api.post(receive, json={"max": 10}).json()["messages"]
        receipts = [message["receipt"] for message in messages]
        settle = {"ack": receipts[1:], "nack": [{"receipt": receipts[0], "delay": "1h"}]}
        answer = api.post(f"/v1/ns/{facts.namespace}/groups/{facts.group}:settle", json=settle)
        assert answer.json()["failed"] == []
    wait_until(
        lambda: "mq_group_topic_oldest_age_seconds{" in told_of_namespace(facts),
        SAMPLES_WAIT_S, "what the group has to do was measured",
    )  # fmt: skip
    return facts


@contextmanager
def data_plane(facts: Quickstart) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {facts.api_key}"}
    with httpx.Client(
        base_url=facts.own_url, headers=headers, timeout=60, trust_env=False
    ) as client:
        yield client


def told_of_namespace(facts: Quickstart) -> str:
    with data_plane(facts) as api:
        return api.get(f"/v1/ns/{facts.namespace}/metrics").text


def test_every_metric_and_label_that_is_asked_for_is_reported(busy: Quickstart) -> None:
    texts = [
        httpx.get(busy.engine_metrics_url, timeout=60, trust_env=False).text,
        told_of_namespace(busy),
        replica_metrics_text("main", RoleStatus(phase=Phase.FOLLOWING)).decode(),
    ]
    told: dict[str, set[str]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                told.setdefault(sample.name, set(ADDED_LABELS)).update(sample.labels)

    metrics = {use.metric for use in uses()} - ADDED_METRICS
    assert metrics - told.keys() == set()
    for use in uses():
        if use.label and use.metric not in ADDED_METRICS:
            assert use.label in told[use.metric], use


class Prometheus:
    """One that scrapes ``facts`` every second, with the rules of ``deploy/`` but without waits."""

    def __init__(self, directory: Path, facts: Quickstart) -> None:
        self._write(directory, facts)
        self._log = directory / "prometheus.log"
        self.url = f"http://127.0.0.1:{find_steady_port()}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    need_prometheus("prometheus"),
                    f"--config.file={directory / SCRAPES.name}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={urlsplit(self.url).netloc}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _write(self, directory: Path, facts: Quickstart) -> None:
        scrapes = yaml.safe_load(SCRAPES.read_text())
        scrapes["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        engine, namespace = scrapes["scrape_configs"]
        engine["static_configs"] = [{"targets": [urlsplit(facts.engine_metrics_url).netloc]}]
        namespace["static_configs"] = [{"targets": [urlsplit(facts.own_url).netloc]}]
        namespace["metrics_path"] = f"/v1/ns/{facts.namespace}/metrics"
        (directory / SCRAPES.name).write_text(yaml.safe_dump(scrapes))
        (directory / "mqservice.key").write_text(facts.api_key)
        at_once = yaml.safe_load(RULES.read_text())
        for group in at_once["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        (directory / RULES.name).write_text(yaml.safe_dump(at_once))

    def ask(self, path: str, **query: str) -> Any:  # Any: of the shape that the path answers with
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=60, trust_env=False)
        told = answer.json()
        assert told["status"] == "success", f"{query}: {told}"
        return told["data"]

    def is_up(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            ready = httpx.get(f"{self.url}/-/ready", timeout=60, trust_env=False)
        except httpx.TransportError:
            return False
        if ready.status_code != 200:  # it still reads what it has on disk
            return False
        targets = self.ask("targets")["activeTargets"]
        return [target["health"] for target in targets] == ["up", "up"]

    def firing(self) -> set[str]:
        alerts = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}


@pytest.fixture(scope="module")
def prometheus(busy: Quickstart, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    need_prometheus("prometheus")
    running = Prometheus(tmp_path_factory.mktemp("prometheus"), busy)
    try:
        wait_until(running.is_up, START_WAIT_S, "Prometheus has read the engine and the namespace")
        yield running
    finally:
        running.process.terminate()
        running.process.wait(START_WAIT_S)


def test_every_panel_of_the_dashboard_shows_something(prometheus: Prometheus) -> None:
    asked = queries()
    # What compares with a time before Prometheus was started has nothing to show yet.
    late = {where for where, query in asked if " offset " in query}
    assert late == {"panel Dead letters in the last hour"}
    late.add("panel Replicas behind")  # this service has none

    def empty() -> list[str]:
        found = [
            f"{where}: {query}"
            for where, query in asked
            if not prometheus.ask("query", query=query)["result"]
        ]
        return [each for each in found if not each.startswith(tuple(late))]

    try:
        wait_until(lambda: not empty(), START_WAIT_S, "every query has a result")
    except AssertionError:
        assert empty() == []
        raise


def test_every_rule_is_checked_without_a_fault(prometheus: Prometheus) -> None:
    def states() -> dict[str, str]:
        groups = prometheus.ask("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    wait_until(lambda: "unknown" not in states().values(), START_WAIT_S, "each was looked at")
    assert states() == {rule["alert"]: "ok" for rule in rules()}


@pytest.mark.torture
def test_an_alert_fires_while_no_beat_leads_and_then_no_more(
    service: Service, prometheus: Prometheus
) -> None:
    wait_until(lambda: "MqBeatMissing" not in prometheus.firing(), START_WAIT_S, "a beat leads")
    worker = service.facts.pids["worker"]  # whose thread beat is
    os.kill(worker, signal.SIGSTOP)
    try:
        wait_until(
            lambda: "MqBeatMissing" in prometheus.firing(), START_WAIT_S, "its absence is told"
        )
    finally:
        os.kill(worker, signal.SIGCONT)
    wait_until(lambda: "MqBeatMissing" not in prometheus.firing(), START_WAIT_S, "it leads again")
