"""A store whose disk is full, seen through REST: refused with nothing stored, then healed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mqservice_client import RequestRejected

from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.quickstart import Quickstart
from tests.services import Service, client_of, consume, running_service
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
    with client_of(facts, timeout="1s") as mq:
        stored = {mq.send(facts.topic, "before").id}
        with (disk / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="28"):
            while True:
                file.write(bytes(4_096))
        with pytest.raises(RequestRejected, match="STORAGE_FULL") as raised:
            while True:
                stored.add(mq.send(facts.topic, BODY).id)
        assert (raised.value.status, raised.value.stored) == (507, False)
        assert _received(facts) == stored  # reading and settling go on

        (disk / "ballast").unlink()
        mq.send(facts.topic, BODY, timeout=f"{HEAL_WAIT_S}s")
        assert len(_received(facts) - stored) == 1
    assert service.facts.pids["engine"] == engine_pid


def _received(facts: Quickstart) -> set[str]:
    """Ids of all that can be received now; settled."""
    return {message.id for message in consume(facts, facts.topic, facts.group)}
