"""A store that was copied back, before an engine opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.tools.backup.adopt import adopt
from tests.storage_engine.doubles import SEGMENT_BYTES


def test_its_names_are_durable_its_segments_have_their_room_and_its_run_is_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    sync_dir = Files.sync_dir

    def noted(files: Files, path: Path) -> None:
        synced.add(path)
        sync_dir(files, path)

    monkeypatch.setattr(Files, "sync_dir", noted)
    segment = tmp_path / "commitlog" / f"{0:020d}"
    epoch = tmp_path / "config" / "epoch"
    for path, text in ((segment, ""), (epoch, "3")):
        path.parent.mkdir()
        path.write_text(text)
    with segment.open("r+b") as sparse:
        sparse.truncate(SEGMENT_BYTES)
    adopt(tmp_path)
    assert synced == {tmp_path, segment.parent, epoch.parent}
    assert segment.stat().st_blocks * 512 >= SEGMENT_BYTES
    assert int(epoch.read_text()) > 3
