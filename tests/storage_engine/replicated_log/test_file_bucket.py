"""A bucket that is a directory, which may be unmounted or moved away at any moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.replicated_log import file_bucket
from storage_engine.replicated_log.bucket import BucketRefused
from storage_engine.replicated_log.file_bucket import FileBucket


def put(bucket: FileBucket, name: str) -> bool:
    return asyncio.run(bucket.put(name, b"entry", version=None))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "log"
    made.mkdir()
    return made


def test_a_directory_that_is_moved_away_during_a_write_is_not_made_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    make_folder = file_bucket._make_folder

    def move_first(path: str, descriptor: int) -> None:
        if not away.exists():
            root.rename(away)
        make_folder(path, descriptor)

    monkeypatch.setattr(file_bucket, "_make_folder", move_first)
    assert put(FileBucket(root), "wal/main/1")
    assert not root.exists()
    assert (away / "wal/main/1").read_bytes() == b"entry"


def test_another_directory_in_its_place_gets_nothing(root: Path, tmp_path: Path) -> None:
    bucket = FileBucket(root)
    assert put(bucket, "wal/main/1")
    away = tmp_path / "away"
    root.rename(away)
    with pytest.raises(BucketRefused, match="create it, or mount it"):
        put(bucket, "wal/main/2")
    root.mkdir()  # as the directory below a file system that was unmounted
    with pytest.raises(BucketRefused, match="is another directory than before"):
        put(bucket, "wal/main/2")
    with pytest.raises(BucketRefused, match="is another directory than before"):
        asyncio.run(bucket.get("wal/main/1"))
    assert list(root.iterdir()) == []
    root.rmdir()
    away.rename(root)
    assert put(bucket, "wal/main/2")
    names = asyncio.run(bucket.list_before("wal/main/", "wal/main/9"))
    assert names == ["wal/main/1", "wal/main/2"]
