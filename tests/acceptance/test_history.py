"""Mixed load over REST and WebSocket while engine, web and clients are killed: nothing breaks."""

from __future__ import annotations

import os
import random
import signal
import threading
from functools import partial

import msgspec
import pytest

from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.acceptance.history.clients import Client, Producer, RestConsumer, SocketConsumer
from tests.acceptance.history.events import History, Killed
from tests.acceptance.history.judge import judge
from tests.services import Service, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
SEED = 20_261
KILLS = ("engine", "web-1", "engine", "web-1", "engine")
HEAL_WAIT_S = 120
DRAIN_WAIT_S = 120


def is_back(service: Service, name: str, pid: int) -> bool:
    return service.facts.pids.get(name) not in (None, pid)


@pytest.mark.parametrize("is_ordered", [False, True], ids=["plain", "ordered"])
def test_what_clients_see_under_kills_breaks_no_promise(service: Service, is_ordered: bool) -> None:
    name = "ordered" if is_ordered else "history"  # of topic and group
    history = History()
    draw = random.Random(SEED)
    load = threading.Event()  # never set: between the kills the clients have some seconds
    make_topic_and_group(service.facts, name, {"ordered": is_ordered})
    facts = msgspec.structs.replace(service.facts, topic=name, group=name)
    producers: list[Client] = [Producer(f"p{n}", facts, history, SEED) for n in range(2)]
    consumers: list[Client] = [
        RestConsumer("rest", facts, history, SEED),
        SocketConsumer("socket-1", facts, history, SEED),
        SocketConsumer("socket-2", facts, history, SEED),
    ]
    clients = producers + consumers
    for client in clients:
        client.start()
    for process in KILLS:
        load.wait(draw.uniform(1.0, 2.5))
        pid = service.facts.pids[process]
        history.add(Killed(process))
        os.kill(pid, signal.SIGKILL)
        wait_until(partial(is_back, service, process, pid), HEAL_WAIT_S, f"{process} is back")
        history.add(Killed(process))  # until it was back, nothing was as usual
    load.wait(2)
    for producer in producers:
        producer.stop()
        producer.join(60)
    wait_until(lambda: is_drained(service.facts, name), DRAIN_WAIT_S, "all is consumed")
    for consumer in consumers:
        consumer.stop()
        consumer.join(60)

    assert [client.failure for client in clients] == [None] * len(clients)
    verdict = judge(history, is_ordered=is_ordered)
    print(
        f"seed {SEED}: {verdict.accepted_count} accepted, {verdict.delivered_count} deliveries, "
        f"again because {dict(verdict.explained)}"
    )
    assert verdict.violations == {}
    assert verdict.accepted_count > 500
    assert verdict.explained
