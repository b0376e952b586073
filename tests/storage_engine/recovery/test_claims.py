"""The mark that says which shard's a store is: written whole or not at all, and read with care."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import ConfigInvalid, StoreCorrupt
from storage_engine.recovery.open_checks import claim_store
from tests.storage_engine.doubles import FaultyFiles, Killed, OpenStore


def claim(store: Path, shard: str) -> None:
    claim_store(FaultyFiles(), store, shard)


def test_a_kill_while_the_mark_is_written_leaves_none(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.kill_at = 0
    with pytest.raises(Killed):
        claim_store(files, tmp_path / "s", "eu")
    assert list((tmp_path / "s").iterdir()) == []
    (tmp_path / "s" / "shard.tmp").write_bytes(b"e")  # or as much of it as was written aside
    claim(tmp_path / "s", "eu")
    assert (tmp_path / "s" / "shard").read_bytes() == b"eu"


@pytest.mark.parametrize("content", [b"", b"e", b"\0\0"])
async def test_half_a_mark_of_a_store_without_messages_is_written_again(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "shard").write_bytes(content)
    (tmp_path / "lock").write_bytes(b"1")
    claim(tmp_path, "eu")
    assert (tmp_path / "shard").read_bytes() == b"eu"
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put_bodies(b"one")


@pytest.mark.parametrize("content", [b"", b"\n", b"\0\0"])
async def test_an_empty_mark_of_a_store_with_messages_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put_bodies(b"one")
    (tmp_path / "shard").write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"is empty.*write the shard's name"):
        claim(tmp_path, "eu")
    assert (tmp_path / "shard").read_bytes() == content


@pytest.mark.parametrize("content", [b"asia", b"eu2", b"\xff\xfe"])
def test_the_mark_of_another_shard_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "shard").write_bytes(content)
    with pytest.raises(ConfigInvalid, match="MQ_ENGINE_SHARD is eu"):
        claim(tmp_path, "eu")
    assert (tmp_path / "shard").read_bytes() == content


def test_the_main_shard_has_no_mark_and_is_no_other_shards(tmp_path: Path) -> None:
    claim(tmp_path / "s", "main")
    assert not (tmp_path / "s").exists()
    (tmp_path / "s" / "commitlog").mkdir(parents=True)
    with pytest.raises(ConfigInvalid, match="of the shard main"):
        claim(tmp_path / "s", "eu")
