"""Three nodes, as ``compose.cluster.yaml`` has them, and the drill that practises losing one."""

from __future__ import annotations

import signal
from collections.abc import Callable

import httpx
import pytest

from tests.acceptance.cluster import NODES, SHARDS, Cluster, running_cluster
from tests.services import START_WAIT_S, STOP_WAIT_S, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.torture, pytest.mark.timeout(1_200)]

MORE = 20  # messages after the shard has its next owner


def test_the_drill_loses_nothing_with_a_node_and_its_disk_and_a_move_back() -> None:
    with running_cluster() as cluster:
        assert cluster.owners() == dict(zip(SHARDS, NODES, strict=True))

        def lose() -> None:
            cluster.kill("node-a", with_disk=True)
            cluster.await_owner("main", "node-b", "node-c")

        def move_back() -> None:
            cluster.move("main", "node-a")
            cluster.await_owner("main", "node-a")

        lost = drilled(cluster, lose)
        cluster.start("node-a")
        cluster.await_ready("node-a")
        moved = drilled(cluster, move_back)
    for table in (lost, moved):
        assert "acknowledged and lost              0" in table, table
        assert "(replicated)" in table, table


def drilled(cluster: Cluster, fault: Callable[[], None]) -> str:
    """What ``mqservice drill failover`` prints, when ``fault`` happens while it sends."""
    drill = cluster.command("drill", "failover", "--count", "100000")
    try:
        await_more(cluster, MORE)
        fault()
        await_more(cluster, MORE)
        drill.send_signal(signal.SIGINT)  # Ctrl-C: enough was sent
        out, notices = drill.communicate(timeout=STOP_WAIT_S)
    finally:
        drill.kill()
    assert drill.returncode == 0, out + notices
    return out


def await_more(cluster: Cluster, count: int) -> None:
    """Until the drill's topic has so many messages more."""
    counts: list[int] = []

    def are_there() -> bool:
        stored = stored_count(cluster)
        if stored is not None:
            counts.append(stored)
        return bool(counts) and counts[-1] >= counts[0] + count

    wait_until(are_there, START_WAIT_S, "the drill sends")


def stored_count(cluster: Cluster) -> int | None:
    """Messages of the drill's topic; None while the shard cannot be asked."""
    headers = {"authorization": f"Bearer {cluster.facts.api_key}"}
    path = f"{cluster.url}/v1/ns/demo/topics/failover-drill"
    answer = httpx.get(path, headers=headers, trust_env=False, timeout=60)
    if answer.status_code == 404:
        return 0  # the drill has not made it yet
    if answer.status_code != 200 or "queue_offsets" not in answer.json():
        return None
    return sum(int(each["max_offset"]) for each in answer.json()["queue_offsets"])
