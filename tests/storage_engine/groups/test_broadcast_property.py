"""Whatever clients do in whatever order, each sees each message once, as long as nothing fails.

drawn steps ── put, receive, ack some, queues, restart ──▶ OpenStore ──▶ what each client saw
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.wire.groups import ClientStats
from tests.sizes import sized
from tests.storage_engine.doubles import Leased, OpenStore
from tests.storage_engine.groups.listeners import Listener, broadcast, clients
from tests.storage_engine.stopping import kill

NAMES = ("a", "b@b", "c#1")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 5)),
        st.tuples(st.just("receive"), st.sampled_from(NAMES), st.integers(1, 5)),
        st.tuples(st.just("ack"), st.sampled_from(NAMES), st.integers(0, 7)),
        st.tuples(st.just("queue"), st.none()),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("kill"), st.none()),
    ),
    max_size=40,
)


class Watcher:
    """What one client holds and has acked; it survives the engine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: list[tuple[Leased, bytes]] = []
        self.acked: Counter[bytes] = Counter()

    def receive(self, store: OpenStore, count: int) -> None:
        leased = Listener(store, self.name).receive(count, lease_ms=60_000)
        assert set(leased.attempts) <= {1}
        for body in leased.bodies:
            assert body not in self.acked
            assert body not in [known for _, known in self.held]
            self.held.append((leased, body))

    def ack(self, store: OpenStore, at: int) -> None:
        if self.held:
            leased, body = self.held.pop(at % len(self.held))
            assert Listener(store, self.name).ack(leased, body).acked_count == 1
            self.acked[body] += 1


@pytest.mark.sized
@settings(max_examples=sized(40, torture=500), deadline=None)
@given(steps=STEPS)
def test_each_client_sees_each_message_once(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory(prefix="bcast") as directory:
        asyncio.run(broadcasts(Path(directory), steps))


async def broadcasts(directory: Path, steps: list[tuple[object, ...]]) -> None:
    watchers = {name: Watcher(name) for name in NAMES}
    queue_count = 1
    sent: list[bytes] = []
    store = OpenStore(directory).open()
    store.topic()
    broadcast(store)
    for step in steps:
        match step:
            case ("put", int(at)):
                sent.append(b"%d" % len(sent))
                await store.put_bodies(sent[-1], queue_id=at % queue_count)
            case ("receive", str(name), int(count)):
                watchers[name].receive(store, count)
            case ("ack", str(name), int(at)):
                watchers[name].ack(store, at)
            case ("queue", None):
                queue_count = min(queue_count + 1, 4)
                store.topic(queues=queue_count)
            case ("checkpoint", None):
                await store.store.checkpoint()
            case ("kill", None):
                kill(store.store)
                store = OpenStore(directory, clock=store.clock).open()
                for watcher in watchers.values():
                    watcher.held.clear()  # what was not acked is delivered again
    for watcher in watchers.values():
        while True:
            while watcher.held:
                watcher.ack(store, 0)
            watcher.receive(store, 16)
            if not watcher.held:
                break
        assert watcher.acked == Counter(sent)
    _check(clients(store), len(sent))
    await store.close()


def _check(found: list[ClientStats], sent_count: int) -> None:
    assert sorted(each.client_id for each in found) == sorted(NAMES)
    for each in found:
        assert (each.lag, each.ready_count, each.inflight_count) == (0, 0, 0)
        assert each.dropped_count == 0
