"""A run of equal files: rolling, finding, dropping, and what it refuses to take over."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.errors import DiskFull, StoreCorrupt
from tests.storage_engine.doubles import FaultyFiles

SIZE = 4_096


def run_of(directory: Path, count: int, files: FaultyFiles | None = None) -> MappedFiles:
    run = MappedFiles(files or FaultyFiles(), directory / "run", SIZE)
    run.load()
    for _ in range(count):
        run.roll()
    return run


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "run").iterdir())


def test_files_are_named_by_their_base_offset_and_full_of_zeros(tmp_path: Path) -> None:
    run_of(tmp_path, 3)
    assert names(tmp_path) == [f"{base:020d}" for base in (0, 4_096, 8_192)]
    assert {(tmp_path / "run" / name).read_bytes() for name in names(tmp_path)} == {bytes(SIZE)}


def test_disk_stands_behind_every_byte(tmp_path: Path) -> None:
    run_of(tmp_path, 1)
    stat = (tmp_path / "run" / names(tmp_path)[0]).stat()
    assert stat.st_blocks * 512 >= SIZE


def test_find_gives_the_file_that_holds_an_offset(tmp_path: Path) -> None:
    run = run_of(tmp_path, 2)
    found = [run.find(offset) for offset in (0, 4_095, 4_096, 8_191)]
    assert [file and file.base_offset for file in found] == [0, 0, 4_096, 4_096]
    assert run.find(8_192) is None
    assert run.find(-1) is None
    assert MappedFiles(Files(), tmp_path / "none", SIZE).find(0) is None


def test_a_run_that_starts_late_is_found_too(tmp_path: Path) -> None:
    run_of(tmp_path, 3).close()
    (tmp_path / "run" / f"{0:020d}").unlink()
    run = run_of(tmp_path, 0)
    assert (run.start_offset, run.end_offset) == (4_096, 12_288)
    assert run.find(0) is None
    first = run.find(4_096)
    assert first is not None
    assert first.base_offset == 4_096


def test_what_is_written_is_there_after_loading_again(tmp_path: Path) -> None:
    run = run_of(tmp_path, 2)
    run.files[1].view[10:13] = b"abc"
    run.files[1].sync(10, 13)
    run.close()
    again = run_of(tmp_path, 0)
    assert bytes(again.files[1].view[9:14]) == b"\0abc\0"


@pytest.mark.parametrize("size", [1, SIZE - 1, SIZE + 1, 2 * SIZE])
def test_a_file_of_another_size_is_refused_untouched(tmp_path: Path, size: int) -> None:
    run_of(tmp_path, 2).close()
    path = tmp_path / "run" / f"{4_096:020d}"
    path.write_bytes(b"x" * size)
    with pytest.raises(StoreCorrupt, match=f"{size} bytes, expected {SIZE}"):
        run_of(tmp_path, 0)
    assert path.read_bytes() == b"x" * size


def test_a_gap_is_refused_untouched(tmp_path: Path) -> None:
    run_of(tmp_path, 3).close()
    (tmp_path / "run" / f"{4_096:020d}").unlink()
    before = names(tmp_path)
    with pytest.raises(StoreCorrupt, match="missing"):
        run_of(tmp_path, 0)
    assert names(tmp_path) == before


def test_files_that_are_no_part_of_the_run_are_left_alone(tmp_path: Path) -> None:
    run_of(tmp_path, 1).close()
    for name in ("notes", "0", "000000000000000000000", "٠" * 20, f"{4_096:020d}.tmp"):
        (tmp_path / "run" / name).write_bytes(b"mine")
    assert len(run_of(tmp_path, 0).files) == 1
    assert (tmp_path / "run" / "notes").read_bytes() == b"mine"


def test_a_full_disk_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    files = FaultyFiles()
    run = run_of(tmp_path, 1, files)
    files.full = {"create"}
    with pytest.raises(DiskFull):
        run.roll()
    assert names(tmp_path) == [f"{0:020d}"]
    files.full = set()
    assert run.roll().base_offset == 4_096


def test_drop_after_deletes_only_files_that_start_there_or_later(tmp_path: Path) -> None:
    run = run_of(tmp_path, 3)
    run.drop_after(4_097)
    assert names(tmp_path) == [f"{base:020d}" for base in (0, 4_096)]
    run.drop_after(4_096)
    assert names(tmp_path) == [f"{0:020d}"]
    run.drop_after(0)
    assert names(tmp_path) == []
    assert run.roll().base_offset == 0


@pytest.mark.parametrize("position", [0, 1, 100, SIZE - 1, SIZE])
def test_zero_after_clears_everything_behind_and_nothing_before(
    tmp_path: Path, position: int
) -> None:
    run = run_of(tmp_path, 1)
    run.files[0].view[:] = b"x" * SIZE
    run.files[0].zero_after(position)
    run.close()
    content = (tmp_path / "run" / f"{0:020d}").read_bytes()
    assert content == b"x" * position + bytes(SIZE - position)


def test_a_sparse_copy_gets_its_disk_before_it_is_written(tmp_path: Path) -> None:
    run_of(tmp_path, 1).close()
    path = tmp_path / "run" / f"{0:020d}"
    path.unlink()
    with path.open("wb") as file:
        file.truncate(SIZE)
    files = FaultyFiles()
    run = run_of(tmp_path, 0, files)
    files.full = {"allocate"}
    with pytest.raises(DiskFull):
        run.files[0].allocate_to(1, SIZE)
    files.full = set()
    run.files[0].allocate_to(1, SIZE)
    assert path.stat().st_blocks * 512 >= SIZE
