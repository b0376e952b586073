"""A machine is lost with its disk: another node takes the shard over from the log alone."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE
from mqservice.supervisor.operator_commands import run_command
from tests.acceptance.test_node import (
    MAKE_KEY,
    SECRET,
    database_url,
    is_alive,
    running_node,
    start_node,
)
from tests.mqservice.delivery.peers import Peer
from tests.ports import find_steady_port
from tests.services import (
    STOP_WAIT_S,
    pids_using,
    running_service,
    service_environment,
    wait_until,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

TOPIC = "/v1/ns/far/topics/orders"
GROUP = "/v1/ns/far/groups/billing"
LATE = "/v1/ns/far/topics/late"  # which the log does not have when the machine is lost
EACH_COUNT = 20  # messages of each kind, before and after


class Producer:
    """Sends by REST, and by a socket that stays open; ``acknowledged``: bodies."""

    def __init__(self, api: httpx.Client, socket: Peer) -> None:
        self._api = api
        self._socket = socket
        self._numbers = itertools.count()
        self.acknowledged: set[str] = set()

    def send_by_rest(self) -> bool:
        """Whether it is replicated; if not, nothing is promised."""
        body = f"rest {next(self._numbers)}"
        response = self._api.post(f"{TOPIC}/messages", json={"body": body})
        if response.status_code != 201:
            assert response.status_code == 503, response.text
            assert response.headers["retry-after"]
            return False
        assert response.json()["durability"] == "replicated"
        self.acknowledged.add(body)
        return True

    def send_by_socket(self) -> bool:
        body = f"socket {next(self._numbers)}"
        answer = self._socket.ask("pub", topic="orders", m=[{"body": body}])
        if answer["op"] != "ok":
            assert answer["retryable"], answer
            return False
        self.acknowledged.add(body)
        return True

    def send_many(self) -> None:
        for _ in range(EACH_COUNT):
            assert self.send_by_rest()
            assert self.send_by_socket()


def kill_all_of(data_dir: Path) -> None:
    """As a machine that loses its power, with its disk."""
    for pid in pids_using(data_dir):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(data_dir)


def bodies_of(consumer: Peer, wanted: set[str]) -> list[str]:
    """What comes, acked, until all that is wanted has come."""
    found: list[str] = []
    while wanted - set(found):
        messages = consumer.take(1)
        found += [consumer.body(message).decode() for message in messages]
        consumer.send("ack", sid=1, t=[message["t"] for message in messages])
    return found


@pytest.mark.torture
def test_what_was_acknowledged_outlives_a_machine_and_its_disk(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    log = {REPLICATED_LOG_VARIABLE: (tmp_path / "log").as_uri(), "MQ_ENGINE_SECRET": SECRET}
    data = tmp_path / "data"
    with running_service(data, **log) as service:
        text = run_command(service_environment(data), data, ["shell", "-c", MAKE_KEY])
        key = f"Bearer {text.strip().rpartition(chr(10))[2]}"

        def node_env(name: str) -> dict[str, str]:
            shards = f"s9=tcp://127.0.0.1:{find_steady_port()}"
            place = {"MQ_NODE": name, "MQ_SHARDS": shards, "DATABASE_URL": database_url(data)}
            return {**log, **place}

        first = start_node(
            tmp_path / "first",
            tmp_path / "first.log",
            MQ_ENGINE_REPLICATION_INTERVAL_MS="600000",
            **node_env("first"),
        )
        url = service.facts.base_url
        with httpx.Client(
            base_url=url, headers={"authorization": key}, timeout=60, trust_env=False
        ) as api:
            wait_until(lambda: is_alive(service, "s9"), 60, "the first node is heard of")
            made = api.put(TOPIC, json={"queues": 2})
            assert (made.status_code, made.json()["durability"]) == (201, "replicated"), made.text
            assert api.put(GROUP).status_code == 201
            socket_url = f"{url.replace('http', 'ws', 1)}/v1/ws?ns=far"
            with Peer(None, url=socket_url, key=key) as socket:
                producer = Producer(api, socket)
                producer.send_many()
                waiting = {"body": "never", "delay": "1h"}
                handle = api.post(f"{TOPIC}/messages", json=waiting).json()["recall_handle"]
                assert api.delete(f"/v1/ns/far/scheduled/{handle}").status_code == 200
                assert api.put(LATE, json={"queues": 1}).status_code == 201
                kill_all_of(tmp_path / "first")
                first.wait(STOP_WAIT_S)
                second = tmp_path / "second"
                with running_node(second, tmp_path / "second.log", **node_env("second")):
                    wait_until(producer.send_by_rest, 60, "requests are served again")
                    wait_until(producer.send_by_socket, 60, "the socket is served again")
                    producer.send_many()
                    assert api.get(f"{TOPIC}/scheduled").json()["messages"] == []
                    wait_until(
                        lambda: api.post(f"{LATE}/messages", json={"body": "x"}).is_success,
                        60,
                        "the next owner knows the topic",
                    )
                    with Peer(None, url=socket_url, key=key) as consumer:
                        answer = consumer.ask("sub", sid=1, topic="orders", group="billing")
                        assert answer["op"] == "ok", answer
                        found = bodies_of(consumer, producer.acknowledged)
    assert len(found) == len(set(found))
    assert len(producer.acknowledged) >= 4 * EACH_COUNT
