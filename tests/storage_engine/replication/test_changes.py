"""What an owner ships of its small files while it replaces them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.disk.layout import JOURNAL_FILE
from storage_engine.disk.small_files import FilesKeptChanging, Identity
from storage_engine.replication import changes
from storage_engine.replication.changes import Change
from storage_engine.replication.entry import Kind, Section
from storage_engine.replication.follower import Follower
from storage_engine.wire.topics import Durability
from tests.sizes import sized
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node

ROUNDS = sized(60, torture=500)


async def owner_with_settles(tmp_path: Path) -> Node:
    owner = await Node(tmp_path / "a", SharedLog()).own(is_shipping=False)
    owner.topic(durability=Durability.SYNC)
    owner.open.group()
    await owner.open.put_bodies(b"a", b"b", b"c")
    owner.open.ack(owner.open.receive(2))
    await owner.replicated()
    return owner


def journals_in(change: Change) -> list[Section]:
    return [each for each in change.files if each.name == JOURNAL_FILE]


async def test_a_journal_that_was_not_taken_does_not_free_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inode would be given to a third one, of which the end of the first would be shipped."""
    owner = await owner_with_settles(tmp_path)
    reader = owner.replication._reader
    path = owner.store_dir / JOURNAL_FILE
    before = path.stat().st_ino

    def changing(store: Path, take: Callable[[dict[str, Identity]], object]) -> object:
        take({JOURNAL_FILE: (path.stat().st_ino,)})
        raise FilesKeptChanging("for this test")

    await owner.open.store.checkpoint()
    assert path.stat().st_ino != before
    with monkeypatch.context() as patch:
        patch.setattr(changes, "at_one_moment", changing)
        with pytest.raises(FilesKeptChanging):
            reader.take()
    assert os.fstat(reader._journal).st_ino == before
    (taken,) = journals_in(reader.take())
    assert taken == Section(Kind.FILE, 0, path.read_bytes(), JOURNAL_FILE)
    assert os.fstat(reader._journal).st_ino == path.stat().st_ino
    await owner.stop()


async def test_another_journal_under_the_name_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await owner_with_settles(tmp_path)
    reader = owner.replication._reader
    path = owner.store_dir / JOURNAL_FILE
    await owner.open.store.checkpoint()
    seen = path.stat().st_ino
    await owner.open.store.checkpoint()
    with pytest.raises(FileNotFoundError):
        reader._read(None, {JOURNAL_FILE: (seen + 1_000_000,)})
    await owner.stop()


async def test_a_replica_has_the_journal_of_an_owner_that_replaces_it_all_the_time(
    tmp_path: Path,
) -> None:
    owner = await owner_with_settles(tmp_path)
    replicated = asyncio.ensure_future(owner.replication.run())
    for number in range(ROUNDS):
        await owner.open.put_bodies(b"%d" % number)
        owner.open.ack(owner.open.receive(1))
        await asyncio.gather(owner.open.store.checkpoint(), owner.replicated())
    replicated.cancel()
    await asyncio.gather(replicated, return_exceptions=True)
    await owner.replicated()
    follower = Follower(MemoryLog(owner.shared, owner.clock), None, tmp_path / "b", Files())
    await follower.read_on()
    await follower.flush()
    own = (owner.store_dir / JOURNAL_FILE).read_bytes()
    assert (tmp_path / "b" / JOURNAL_FILE).read_bytes() == own
    await owner.stop()
