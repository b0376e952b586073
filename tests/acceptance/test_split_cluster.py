"""A namespace goes to another shard of three nodes while it is used, and then its node is lost."""

from __future__ import annotations

import json
import signal

import pytest

from tests.acceptance.cluster import NODES, running_cluster
from tests.acceptance.test_cluster import MORE, await_more
from tests.services import STOP_WAIT_S

pytestmark = [pytest.mark.acceptance, pytest.mark.torture, pytest.mark.timeout(1_200)]


def test_what_moved_is_on_the_other_nodes_when_its_owner_and_its_disk_are_lost() -> None:
    with running_cluster() as cluster:
        cluster.move("s2", "node-a")
        cluster.await_owner("s2", "node-a")
        drill = cluster.command("drill", "failover", "--count", "100000")
        try:
            await_more(cluster, MORE)
            said = cluster.operate(
                "node-a", "shard", "split", "main", "s2", "--namespace", "demo", "-o", "json"
            )
            await_more(cluster, MORE)
            cluster.kill("node-a", with_disk=True)
            cluster.await_owner("s2", *NODES[1:])
            await_more(cluster, MORE)
            drill.send_signal(signal.SIGINT)  # Ctrl-C: enough was sent
            out, notices = drill.communicate(timeout=STOP_WAIT_S)
        finally:
            drill.kill()
        print(said, out)
    assert json.loads(said)["groups"] >= 0, said
    assert drill.returncode == 0, out + notices
    assert "acknowledged and lost              0" in out, out
