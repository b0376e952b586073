"""A service goes into a replicated log, loses its disk, and comes back to one machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE
from tests.services import api_of, consume, run_mqservice, run_up, running_service

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]

GROUPS = ("billing", "mail")
TOPICS = {"before": "sync", "after": "replicated"}


def make(api: httpx.Client, topic: str, durability: str) -> None:
    made = api.put(f"/topics/{topic}", json={"queues": 2})
    assert (made.status_code, made.json()["durability"]) == (201, durability), made.text
    for group in GROUPS:
        assert api.put(f"/groups/{topic}-{group}").status_code == 201


def produce(api: httpx.Client, topic: str, count: int, durability: str) -> None:
    for number in range(count):
        sent = api.post(f"/topics/{topic}/messages", json={"body": str(number)})
        assert (sent.status_code, sent.json()["durability"]) == (201, durability), sent.text


def detach(data_dir: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_mqservice(data_dir, "shard", "detach", "main", *options, **env)


def test_a_service_leaves_its_replicated_log_and_nothing_is_lost(tmp_path: Path) -> None:
    data, log = tmp_path / "data", {REPLICATED_LOG_VARIABLE: (tmp_path / "log").as_uri()}
    (tmp_path / "log").mkdir()
    with running_service(data) as service, api_of(service) as api:
        make(api, "before", "sync")
        produce(api, "before", 20, "synced")
        assert len(consume(service.facts, "before", "before-billing", count=5)) == 5
    with running_service(data, **log) as service, api_of(service) as api:
        make(api, "after", "replicated")
        produce(api, "after", 20, "replicated")
        assert len(consume(service.facts, "after", "after-billing", count=5)) == 5
        busy = detach(data, **log)
        assert (busy.returncode, "is in use by process" in busy.stderr) == (3, True), busy.stderr
    refused = run_up(data)
    assert refused.returncode != 0
    assert "mqservice shard detach" in refused.stderr + refused.stdout

    shutil.rmtree(data / "store")  # the disk of the store is lost, too
    without = detach(data)
    assert (without.returncode, REPLICATED_LOG_VARIABLE in without.stderr) == (2, True)
    shown = detach(data, "--dry-run", **log)
    assert (shown.returncode, "no node has main" in shown.stderr) == (0, True), shown.stderr
    assert not list((data / "store").iterdir())
    for _ in range(2):  # the second time nothing is to be done
        done = detach(data, **log)
        assert (done.returncode, "has all of main" in done.stderr) == (0, True), done.stderr
    verified = run_mqservice(data, "engine", "verify", str(data / "store"))
    assert verified.returncode == 0, verified.stdout

    with running_service(data) as service, api_of(service) as api:
        for topic in TOPICS:
            assert api.get(f"/topics/{topic}").json()["durability"] == "sync"
            produce(api, topic, 1, "synced")
            assert len(consume(service.facts, topic, f"{topic}-billing", count=16)) == 16
            assert len(consume(service.facts, topic, f"{topic}-mail", count=21)) == 21
    again = run_up(data, **log)
    assert again.returncode != 0
    assert "or the URL of another log" in again.stderr + again.stdout
