"""A store whose disk is full, seen through REST: refused with nothing stored, then healed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.quickstart import Quickstart
from tests.services import Service, running_service, wait_until
from tests.storage_engine.faults import machine

pytestmark = [pytest.mark.torture, pytest.mark.acceptance]
BODY = "x" * 100_000
HEAL_WAIT_S = 60


@pytest.fixture
def small_store(tmp_path: Path) -> Iterator[tuple[Path, Service]]:
    """A service whose store, and nothing else of it, has 24 MiB of disk."""
    machine.need_mounts()
    data_dir = tmp_path / "data"
    DataDir(data_dir).create()
    DataDir(data_dir).lock.touch()  # which makes it the directory of a service
    (data_dir / "store").rmdir()
    with machine.tmpfs(24 * machine.MIB) as disk:
        (data_dir / "store").symlink_to(disk / "store")
        (disk / "store").mkdir(mode=0o700)
        small = {
            "MQ_ENGINE_SEGMENT_BYTES": "4194304",
            "MQ_ENGINE_BODY_BYTES_MAX": "1048576",
            "MQ_ENGINE_INDEX_SLOTS": "1000",
            "MQ_ENGINE_INDEX_ENTRIES": "4000",
            "MQ_ENGINE_RESERVE_BYTES": "262144",
        }
        with running_service(data_dir, **small) as service:
            yield disk, service


def test_a_full_disk_answers_507_through_rest_and_recovers_on_its_own(
    small_store: tuple[Path, Service],
) -> None:
    disk, service = small_store
    facts = service.facts
    engine_pid = facts.pids["engine"]
    headers = {"authorization": f"Bearer {facts.api_key}"}
    with httpx.Client(base_url=facts.base_url, headers=headers, timeout=60) as client:
        stored = {_produced(client, facts, "before").json()["id"]}
        with (disk / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="28"):
            while True:
                file.write(bytes(4_096))
        while (answer := _produced(client, facts, BODY)).status_code == 201:
            stored.add(answer.json()["id"])
        assert answer.status_code == 507
        problem = answer.json()
        assert (problem["code"], problem["stored"]) == ("STORAGE_FULL", False)
        assert _received(client, facts) == stored  # reading and settling go on

        (disk / "ballast").unlink()
        wait_until(
            lambda: _produced(client, facts, BODY).status_code == 201,
            HEAL_WAIT_S,
            "puts are taken again",
        )
        assert len(_received(client, facts) - stored) == 1
    assert service.facts.pids["engine"] == engine_pid


def _produced(client: httpx.Client, facts: Quickstart, body: str) -> httpx.Response:
    path = f"/v1/ns/{facts.namespace}/topics/{facts.topic}/messages"
    return client.post(path, json={"body": body})


def _received(client: httpx.Client, facts: Quickstart) -> set[str]:
    """Ids of all that can be received now; settled."""
    ids: set[str] = set()
    base = f"/v1/ns/{facts.namespace}"
    while True:
        answer = client.post(
            f"{base}/topics/{facts.topic}/groups/{facts.group}:receive",
            json={"max": 64, "wait": "1s"},
        )
        messages = answer.raise_for_status().json()["messages"]
        if not messages:
            return ids
        ids |= {message["id"] for message in messages}
        receipts = [message["receipt"] for message in messages]
        settled = client.post(f"{base}/groups/{facts.group}:settle", json={"ack": receipts})
        settled.raise_for_status()
