"""Tests say that the disk is too full for them, before they fail one after the other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.disk_room import GIB, why_no_room


@pytest.mark.parametrize(
    ("total_gib", "free_gib", "is_room"),
    [(252, 64, True), (252, 16, True), (252, 15, False), (20, 12, True), (20, 9, False)],
)
def test_a_disk_on_which_an_engine_would_refuse_puts_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    total_gib: int,
    free_gib: int,
    *,
    is_room: bool,
) -> None:
    usage = shutil._ntuple_diskusage(total_gib * GIB, (total_gib - free_gib) * GIB, free_gib * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    reason = why_no_room(tmp_path)
    assert (reason is None) == is_room
    assert reason is None or f"{free_gib}.0 of {total_gib}.0 GiB free" in reason
