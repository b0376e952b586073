"""Three nodes, as ``compose.cluster.yaml`` has them, and the drill that practises losing one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import httpx
import pytest

from tests.acceptance.cluster import NODES, SHARDS, Cluster, running_cluster
from tests.services import START_WAIT_S, STOP_WAIT_S, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.torture, pytest.mark.timeout(1_200)]

DRILL_COUNT = 200  # messages: some ten seconds, and the time that a takeover takes


def test_the_drill_loses_nothing_with_a_node_and_its_disk_and_a_move_back() -> None:
    with running_cluster() as cluster:
        assert {name: cluster.owner(name) for name in SHARDS} == dict(
            zip(SHARDS, NODES, strict=True)
        )
        lost = drilled(cluster, lambda: cluster.kill("node-a", with_disk=True))
        assert cluster.owner("main") in ("node-b", "node-c")
        cluster.start("node-a")
        cluster.await_ready("node-a")
        moved = drilled(cluster, lambda: cluster.move("main", "node-a"))
        assert cluster.owner("main") == "node-a"
    for table in (lost, moved):
        assert "acknowledged and lost              0" in table, table
        assert "(replicated)" in table, table


def drilled(cluster: Cluster, fault: Callable[[], None]) -> str:
    """What ``mqservice drill failover`` prints, when ``fault`` happens while it sends."""
    before = stored_count(cluster)
    drill = cluster.command("drill", "failover", "--count", str(DRILL_COUNT))
    try:
        wait_until(lambda: stored_count(cluster) > before, START_WAIT_S, "the drill sends")
        fault()
        out, notices = drill.communicate(timeout=STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        drill.kill()
        raise
    assert drill.returncode == 0, out + notices
    return out


def stored_count(cluster: Cluster) -> int:
    """Messages of the drill's topic."""
    headers = {"authorization": f"Bearer {cluster.key}"}
    path = f"{cluster.url}/v1/ns/demo/topics/failover-drill"
    answer = httpx.get(path, headers=headers, trust_env=False, timeout=60)
    return sum(each["max_offset"] for each in answer.json().get("queue_offsets", []))
