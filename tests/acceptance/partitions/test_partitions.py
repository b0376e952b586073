"""Parts of the service that cannot reach each other for some seconds: nothing breaks, all heals."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.partitions.installation import (
    CLIENT_WEB,
    WEB_POSTGRES,
    WEB_VALKEY,
    WORKER_POSTGRES,
    WORKER_VALKEY,
    Installation,
    running_installation,
)
from tests.acceptance.partitions.network import Direction
from tests.acceptance.partitions.run import Partition, run_partitions
from tests.storage_engine.faults.machine import need_namespaces

pytestmark = [
    pytest.mark.torture,
    pytest.mark.acceptance,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("partitions"),
]
SEED = 11


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    need_namespaces()
    # Unix socket paths are short: pytest's own directories may be too long.
    with (
        tempfile.TemporaryDirectory(prefix="net") as directory,
        running_installation(Path(directory)) as running,
    ):
        yield running


def cut(installation: Installation, name: str, *partitions: Partition) -> None:
    """Each in turn, under load; nothing may be found, and each must have dropped packets."""
    done = run_partitions(installation, partitions, seed=SEED, name=name)
    assert done.anomalies == []
    assert done.fired == {str(partition): 1 for partition in partitions}
    assert done.verdict.accepted_count > 100
    verdict = done.verdict
    print(
        f"seed {SEED}: {dict(done.counts)}, {verdict.accepted_count} accepted, "
        f"{verdict.delivered_count} deliveries, again because {dict(verdict.explained)}"
    )


def test_clients_that_are_cut_off_lose_nothing(installation: Installation) -> None:
    cut(
        installation,
        "clients",
        Partition(CLIENT_WEB, Direction.ANSWERS),
        Partition(CLIENT_WEB, Direction.BOTH),
    )


def test_the_control_plane_answers_while_postgresql_is_cut_off(installation: Installation) -> None:
    cut(installation, "postgres", Partition(WEB_POSTGRES, Direction.ANSWERS))


def test_messages_flow_while_valkey_is_cut_off(installation: Installation) -> None:
    cut(installation, "valkey", Partition(WEB_VALKEY, Direction.BOTH))


def test_workers_and_beat_continue_after_they_were_cut_off(installation: Installation) -> None:
    cut(
        installation,
        "workers",
        Partition(WORKER_POSTGRES, Direction.BOTH),
        Partition(WORKER_VALKEY, Direction.QUESTIONS),
    )
