"""A namespace goes to a shard of another node while it is used, and then that node is lost."""

from __future__ import annotations

import json
import signal

import pytest

from tests.acceptance.cluster import running_cluster
from tests.acceptance.test_cluster import MORE, await_more
from tests.services import STOP_WAIT_S

pytestmark = [pytest.mark.acceptance, pytest.mark.torture, pytest.mark.timeout(1_200)]


def test_what_moved_is_on_the_other_nodes_when_its_owner_and_its_disk_are_lost() -> None:
    with running_cluster() as cluster:
        cluster.await_owner("s2", "node-b")
        drill = cluster.command("drill", "failover", "--count", "100000")
        try:
            await_more(cluster, MORE)
            said = cluster.operate(
                "node-a", "shard", "split", "main", "s2", "--namespace", "demo", "-o", "json"
            )
            cluster.await_owner("s2", "node-b")
            await_more(cluster, MORE)
            cluster.kill("node-b", with_disk=True)
            cluster.await_owner("s2", "node-a", "node-c")
            await_more(cluster, MORE)
            drill.send_signal(signal.SIGINT)  # Ctrl-C: enough was sent
            out, notices = drill.communicate(timeout=STOP_WAIT_S)
        finally:
            drill.kill()
        print(said, out)
    assert json.loads(said)["groups"] >= 0, said
    assert drill.returncode == 0, out + notices
    assert "acknowledged and lost              0" in out, out
