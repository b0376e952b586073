"""Topics and groups that many ask for at once: one write for all, each answered by its own end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage_engine.catalog import shared_writes
from storage_engine.errors import (
    BadRequest,
    DiskFull,
    ShuttingDown,
    StoreBusy,
    StoreError,
    SyncFailed,
)
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.topics import TopicConfig
from tests.storage_engine.doubles import WAIT_S, FaultyFiles, OpenStore
from tests.storage_engine.engines import Engine


class GatedFiles(FaultyFiles):
    """Tables are written when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_gated = False
        self.gate = threading.Semaphore(0)
        self.error: Exception | None = None  # of the next write

    def replace(self, path: Path, content: bytes) -> None:
        is_table = path.name in ("topics.json", "subscriptionGroup.json")
        if is_table and self.is_gated and not self.gate.acquire(timeout=WAIT_S):
            raise AssertionError("no test lets this write through")
        error, self.error = self.error, None
        if is_table and error is not None:
            raise error
        super().replace(path, content)


class Asked:
    """What a client has asked for, and what it was told."""

    def __init__(self, store: OpenStore) -> None:
        self.store = store
        self.answers: dict[str, list[StoreError | None]] = {}
        self._told = asyncio.Event()

    def topic(self, name: str, queues: int = 1) -> None:
        def answer(error: StoreError | None) -> None:
            # Whoever is told that it is done finds it in the file.
            if error is None:
                assert topics_in_file(self.store)[name] >= queues
            self.answers.setdefault(name, []).append(error)
            self._told.set()

        self.store.store.catalog.topic_writes.put(
            TopicConfig(topic=name, queue_count=queues), answer
        )

    async def answered(self, count: int) -> None:
        while sum(map(len, self.answers.values())) < count:
            self._told.clear()
            await asyncio.wait_for(self._told.wait(), WAIT_S)


def topics_in_file(store: OpenStore) -> dict[str, int]:
    content = json.loads((store.store_dir / "config" / "topics.json").read_text())
    rows = content["topicConfigTable"]
    return {name: row["writeQueueNums"] for name, row in rows.items()}


def topics_in_memory(store: OpenStore) -> dict[str, int]:
    return {name: topic.queue_count for name, topic in store.store.catalog.topics.items()}


@pytest.fixture
def files() -> Iterator[GatedFiles]:
    files = GatedFiles()
    yield files
    files.gate.release(100)  # no thread waits after a test that failed


async def begun(files: GatedFiles) -> None:
    """Until the loop has handed over a write, which waits."""
    files.is_gated = True
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_changes_share_the_write_that_follows_the_one_under_way(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        asked, writes = Asked(store), store.store.catalog.topic_writes
        asked.topic("first")
        await begun(files)
        for number in range(20):
            asked.topic(f"t{number}", 2)
        asked.topic("t7", 5)
        assert topics_in_memory(store) == {}  # nobody sees what is not durable
        files.gate.release()
        await asked.answered(1)
        assert topics_in_memory(store) == topics_in_file(store) == {"first": 1}
        files.gate.release()
        await asked.answered(22)
        assert topics_in_memory(store) == topics_in_file(store)
        assert topics_in_memory(store)["t7"] == 5  # the later one holds
        assert writes.write_count == 2
    async with OpenStore(tmp_path) as again:
        assert len(topics_in_memory(again)) == 21


async def test_topics_of_one_write_take_messages(tmp_path: Path, files: GatedFiles) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        asked = Asked(store)
        asked.topic("t", 2)
        asked.topic("u")
        await asked.answered(2)
        await store.put_bodies(b"a", queue_id=1)
        assert store.pull_bodies(queue_id=1) == [b"a"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(DiskFull("no room"), DiskFull), (SyncFailed("lost"), SyncFailed), (OSError("x"), SyncFailed)],
)
async def test_a_write_that_fails_fails_those_that_waited_for_it_and_nobody_else(
    tmp_path: Path, files: GatedFiles, error: Exception, kind: type[StoreError]
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        store.topic("old")
        asked = Asked(store)
        files.error = error
        asked.topic("a")
        asked.topic("b")
        await begun(files)
        asked.topic("c")
        files.gate.release(2)
        await asked.answered(3)
        assert [type(asked.answers[name][0]) for name in "abc"] == [kind, kind, type(None)]
        assert topics_in_memory(store) == topics_in_file(store) == {"old": 1, "c": 1}
        files.gate.release()
        asked.topic("a")
        await asked.answered(4)
        assert asked.answers["a"][-1] is None


async def test_who_is_refused_does_not_hold_up_the_others(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files, limits={"topic_count_max": 2}) as store:
        asked = Asked(store)
        for name in ("no%%such name", "a", "b", "c", "a"):
            asked.topic(name)
        await asked.answered(5)
        assert isinstance(asked.answers["no%%such name"][0], BadRequest)
        assert isinstance(asked.answers["c"][0], BadRequest)  # counted with those before it
        assert asked.answers["a"] == [None, None]
        assert store.store.catalog.topic_writes.write_count == 1
        asked.topic("a")  # as it is
        await asked.answered(6)
        assert store.store.catalog.topic_writes.write_count == 1


async def test_what_the_engine_needs_at_once_waits_for_the_write_under_way(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        asked = Asked(store)
        asked.topic("asked")
        await begun(files)
        files.gate.release(2)
        store.topic("own")
        assert topics_in_memory(store) == topics_in_file(store) == {"asked": 1, "own": 1}
        assert asked.answers == {}
        await asked.answered(1)


async def test_a_topic_deleted_while_it_is_changed_is_gone(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        store.topic("t")
        await store.put_bodies(b"old")
        asked = Asked(store)
        asked.topic("t", 3)
        await begun(files)
        files.gate.release(2)
        store.store.consumption.deletions.topic_delete("t")
        files.is_gated = False
        assert topics_in_memory(store) == topics_in_file(store) == {}
        await asyncio.sleep(0)
        store.topic("t")
        assert store.pull_bodies(queue_offset=1) == []


async def test_a_pause_written_while_a_message_fails_is_kept(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        store.topic()
        store.group()
        told: list[StoreError | None] = []
        paused = GroupConfig(group="g", is_paused=True)
        store.store.catalog.group_writes.put(paused, told.append)
        await begun(files)
        files.gate.release(10)
        # What a retry begins with: the group's row says which topics it is of.
        queue = store.store.catalog.retry_queue(store.store.catalog.groups["g"], "t")
        assert queue.topic == "%RETRY%g"
        assert store.store.catalog.groups["g"] == paused
        while not told:
            await asyncio.sleep(0)
        assert told == [None]
    async with OpenStore(tmp_path) as again:
        assert again.store.catalog.groups["g"] == paused
        assert again.store.catalog.known_retry_queue(paused, "t") is not None


async def test_groups_share_writes_too_and_waiting_members_hear_of_it(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        store.topic()
        store.store.catalog.group_put(GroupConfig(group="g", is_paused=True))
        answers, _ = store.park()
        await store.put_bodies(b"a")
        assert answers == []
        told: list[StoreError | None] = []
        writes = store.store.catalog.group_writes
        before = writes.write_count
        writes.put(GroupConfig(group="g"), told.append)
        writes.put(GroupConfig(group="h", dispatch=Dispatch.EXCLUSIVE), told.append)
        while len(told) < 2:
            await asyncio.sleep(0)
        assert told == [None, None]
        assert [each.bodies for each in answers] == [[b"a"]]
        assert writes.write_count == before + 1


async def test_a_stop_writes_and_answers_what_waits_and_takes_no_more(
    tmp_path: Path, files: GatedFiles
) -> None:
    store = OpenStore(tmp_path, files=files).open()
    asked = Asked(store)
    asked.topic("running")
    await begun(files)
    asked.topic("waiting")
    files.gate.release(2)
    await store.close()
    assert asked.answers == {"running": [None], "waiting": [None]}
    asked.topic("late")
    assert isinstance(asked.answers["late"][0], ShuttingDown)
    async with OpenStore(tmp_path) as again:
        assert set(topics_in_memory(again)) == {"running", "waiting"}


async def test_no_more_may_wait_than_there_is_room_for(
    tmp_path: Path, files: GatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_writes, "WAITING_COUNT_MAX", 2)
    async with OpenStore(tmp_path, files=files) as store:
        asked = Asked(store)
        for name in "abc":
            asked.topic(name)
        assert isinstance(asked.answers["c"][0], StoreBusy)
        await asked.answered(3)


async def test_a_file_that_nobody_knows_is_written_again_for_what_it_should_say(
    tmp_path: Path, files: GatedFiles
) -> None:
    async with OpenStore(tmp_path, files=files) as store:
        store.topic("t")
        files.dir_sync_failures = 1  # after the file was renamed: it says less than memory
        with pytest.raises(SyncFailed):
            store.store.catalog.topic_remove("t")
        assert (topics_in_memory(store), topics_in_file(store)) == ({"t": 1}, {})
        asked = Asked(store)
        asked.topic("t")  # as memory has it
        await asked.answered(1)
        assert topics_in_file(store) == {"t": 1}


@pytest.mark.timeout(60)
def test_no_topic_that_was_answered_is_lost_by_a_kill() -> None:
    answered: list[str] = []
    with Engine() as engine:

        def create(worker: int) -> None:
            with engine.client() as client:
                for number in range(10_000):
                    name = f"t{worker}-{number}"
                    try:
                        client.topic_put(TopicConfig(topic=name, queue_count=1))
                    except StoreError:
                        return
                    answered.append(name)
                    if len(answered) == 100:
                        engine.kill()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(create, range(8)))
        assert len(answered) >= 100
        engine.start()
        with engine.client() as client:
            assert {each.topic for each in client.topic_list().topics} >= set(answered)
