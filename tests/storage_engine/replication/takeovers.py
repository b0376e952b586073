"""Kills owners of a shard again and again while clients work; each time another one takes over.

    producers, consumer ──▶ owner ── entries ──▶ log in a directory ──▶ replica
                              ✕ SIGKILL, its disk is gone       │           └─▶ the next owner
                                                                └─▶ or one on an empty disk

Sometimes the same owner starts again on its own disk instead. Clients reach all of them at one
address. What was settled within the last moments may be delivered once more; nothing else may
differ from a store that was never killed.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import threading
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from storage_engine.client import Durability, GroupConfig, TopicConfig
from tests.engine import fork_engine
from tests.forked import Process
from tests.storage_engine.engines import END_WAIT_S, Engine
from tests.storage_engine.kills.history_checker import anomalies
from tests.storage_engine.kills.kill_loop import (
    GROUP,
    LEASE_MS,
    LIMITS,
    await_acks,
    drain,
    working,
)
from tests.storage_engine.kills.outcomes import History, Queue

REPLICATED_QUEUES: Final[tuple[Queue, ...]] = (("t", 0), ("t", 1))
RUN_S: Final = 0.5  # at most, between ready and killed
HOST_LOSSES: Final = 0.7  # share of kills that take the disk too
WITH_REPLICA: Final = 0.5  # share of them in which there is a replica; else the log has it all
REPLICA_KILLS: Final = 0.5  # share of them before which the replica is killed, and starts again
IN_START: Final = 0.25  # share of takeovers in which the next owner is killed while it starts
START_S: Final = 0.3  # at most, between launched and killed
OWNER_KILLED: Final = "kill -9 of an owner that starts again"
LOST_WITH_REPLICA: Final = "loss of an owner and its disk, with a replica"
LOST_WITHOUT_REPLICA: Final = "loss of an owner and its disk, without a replica"
REPLICA_KILLED: Final = "kill -9 of a replica"
START_KILLED: Final = "kill -9 of an owner that starts"
FAULTS: Final = (
    OWNER_KILLED,
    LOST_WITH_REPLICA,
    LOST_WITHOUT_REPLICA,
    REPLICA_KILLED,
    START_KILLED,
)


class Takeovers(NamedTuple):
    """What clients saw, and how often each of ``FAULTS`` was fired."""

    history: History
    fired: Counter[str]


class Shard(Engine):
    """An owner, and who follows it; ``store_dir`` is the present owner's."""

    def __init__(self, **limits: str) -> None:
        super().__init__()
        self.log_dir = self.directory / "replicated"
        self.log_dir.mkdir()
        self._environment |= {
            "MQ_ENGINE_REPLICATED_LOG": self.log_dir.as_uri(),
            "MQ_ENGINE_REPLICATION_INTERVAL_MS": "50",
            "MQ_ENGINE_SNAPSHOT_LOG_ENTRIES": "15",
            **limits,
        }
        self._replica: Process | None = None
        self._count = 0
        self.replica_dir = self.directory / "store-0"

    def choose_empty_disk(self) -> None:
        """For the next replica, or the next owner where none followed."""
        self._count += 1
        self.replica_dir = self.directory / f"store-{self._count}"

    def follow(self, *, is_new: bool = True) -> None:
        """Start a replica on an empty directory, or again on the one that it had."""
        if is_new:
            self.choose_empty_disk()
        environment = self._environment | {"MQ_ENGINE_STORE_DIR": str(self.replica_dir)}
        self._replica = fork_engine(
            "follow", environ=environment, directory=self.directory, log=self.log
        )

    def end_replica(self, number: int = signal.SIGKILL) -> int:
        """The exit code."""
        assert self._replica is not None
        self._replica.send_signal(number)
        code = self._replica.wait(END_WAIT_S)
        self._replica = None
        return code

    def logged(self, action: str) -> int:
        """How often, by all processes so far."""
        return self.log.read_text().count(f'"action":"{action}"')

    def hand_to_replica(self, *, is_wiped: bool = True) -> Path:
        """From now on ``launch`` and ``start`` are of the replica's directory; the old one. Where
        none followed, that is empty.
        """
        if self._replica is not None:
            self.end_replica()
        old, self.store_dir = self.store_dir, self.replica_dir
        self._environment["MQ_ENGINE_STORE_DIR"] = str(self.store_dir)
        if is_wiped:
            shutil.rmtree(old)
        return old

    def __exit__(self, *error: object) -> None:
        if self._replica is not None:
            self.end_replica()
        super().__exit__(*error)  # type: ignore[arg-type] # as they came


def run_takeovers(
    count: int, *, seed: int, acked_each: int, is_patient: bool = True, **limits: str
) -> Takeovers:
    """Kill that many owners, then drain the last one, ``is_patient`` or not."""
    draw = random.Random(seed)
    history = History()
    fired: Counter[str] = Counter()
    with Shard(**LIMITS, **limits) as shard:
        with shard.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=2, durability=Durability.REPLICATED)
            )
            client.topic_put(TopicConfig(topic="a", queue_count=1))
            client.group_put(GroupConfig(group=GROUP, lease_ms=LEASE_MS))
        with working(shard, history, draw, REPLICATED_QUEUES):
            for killed in range(count):
                kind = _draw_kind(draw)
                if kind == LOST_WITH_REPLICA:
                    shard.follow()
                await_acks(history, acked_each * (killed + 1))
                threading.Event().wait(draw.random() * RUN_S)
                if kind == LOST_WITH_REPLICA and draw.random() < REPLICA_KILLS:
                    shard.end_replica()
                    fired[REPLICA_KILLED] += 1
                    shard.follow(is_new=False)
                    threading.Event().wait(draw.random() * RUN_S)
                shard.kill()
                fired[kind] += 1
                if kind != OWNER_KILLED:
                    if kind == LOST_WITHOUT_REPLICA:
                        shard.choose_empty_disk()
                    shard.hand_to_replica()
                if draw.random() < IN_START:
                    fired[START_KILLED] += _kill_in_start(shard, draw)
                shard.start()
        drain(shard, history, is_patient=is_patient)
    return Takeovers(history, fired)


def _draw_kind(draw: random.Random) -> str:
    if draw.random() >= HOST_LOSSES:
        return OWNER_KILLED
    return LOST_WITH_REPLICA if draw.random() < WITH_REPLICA else LOST_WITHOUT_REPLICA


def _kill_in_start(shard: Shard, draw: random.Random) -> bool:
    """Whether it was killed before it ended by itself."""
    starting = shard.launch()
    with contextlib.suppress(subprocess.TimeoutExpired):
        starting.wait(draw.random() * START_S)
    starting.kill()
    return starting.wait() == -signal.SIGKILL


def broken_promises(history: History) -> list[tuple[str, str]]:
    """What must not be; a settle of the last moments may be lost with its host."""
    return [each for each in anomalies(history) if each[0] != "duplicate-after-ack"]
