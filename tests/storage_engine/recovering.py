"""Stores to stop and damage: filled with known bodies, and ways to look at and hurt their log."""

from __future__ import annotations

from pathlib import Path

from tests.storage_engine.doubles import SEGMENT_BYTES, OpenStore

BODIES = [b"%d" % i + bytes(i * 37 % 900) for i in range(20)]
# Differ from run to run, by design: the epoch counts runs, lock and abort name the process.
RUN_FILES = ("epoch", "lock", "abort", "checkpoint", "consumerOffset.json")


async def filled(store_dir: Path, bodies: list[bytes] = BODIES) -> OpenStore:
    """A running store with one topic of two queues, half of the messages in each."""
    store = OpenStore(store_dir).open()
    store.topic(queues=2)
    store.group()
    for index, body in enumerate(bodies):
        await store.put_bodies(body, queue_id=index % 2)
    return store


def pulled(store: OpenStore) -> list[bytes]:
    """All bodies in the order of ``filled``."""
    queues = [store.pull_bodies(0), store.pull_bodies(1)]
    return [queues[i % 2][i // 2] for i in range(sum(map(len, queues)))]


def log_path(store_dir: Path, at: int) -> tuple[Path, int]:
    base = at - at % SEGMENT_BYTES
    return store_dir / "commitlog" / f"{base:020d}", at - base


def poke(store_dir: Path, at: int, content: bytes) -> None:
    """Overwrite bytes of the log from a physical offset on, to the end of that segment."""
    path, start = log_path(store_dir, at)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content[: SEGMENT_BYTES - start])
