"""The journal of settled offsets: its bytes, torn tails, restarts and full disks."""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.offset_bits import runs_of
from storage_engine.delivery.offset_journal import read_entries
from storage_engine.delivery.progress import Progress
from storage_engine.disk.files import Files
from storage_engine.errors import DiskFull, StoreCorrupt, SyncFailed
from storage_engine.filters.message_filter import FilterKind
from tests.storage_engine.doubles import FaultyFiles, Killed

State = dict[tuple[str, str, int], tuple[int, tuple[int, ...]]]


def opened(directory: Path, files: Files | None = None) -> ConsumerOffsets:
    offsets = ConsumerOffsets(files or Files(), directory)
    offsets.load()
    offsets.open()
    return offsets


def state(offsets: ConsumerOffsets) -> State:
    return {
        (p.group, p.topic, p.queue_id): (p.consumer_offset, tuple(sorted(p.settled)))
        for p in offsets
    }


def settle(offsets: ConsumerOffsets, group: str, *queue_offsets: int) -> None:
    progress = offsets.find(group, "t", 0)
    assert progress is not None
    offsets.settle([(progress, runs_of(sorted(queue_offsets)))])


def entry(
    kind: int, name_id: int, queue_id: int, first: int, count: int, name: bytes = b""
) -> bytes:
    rest = struct.pack(">B3xIIqI", kind, name_id, queue_id, first, count) + name
    return zlib.crc32(rest).to_bytes(4) + rest


def test_golden_bytes_of_a_journal(tmp_path: Path) -> None:
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 5})
    settle(offsets, "g", 5, 6, 9)
    expected = (
        entry(1, 0, 3, 0, 0, b"t@g")
        + entry(3, 0, 0, 5, 0)
        + entry(2, 0, 0, 5, 2)
        + entry(2, 0, 0, 9, 1)
    )
    assert (tmp_path / "offsets.journal").read_bytes() == expected
    assert state(offsets) == {("g", "t", 0): (7, (9,))}


def test_what_is_journaled_comes_back(tmp_path: Path) -> None:
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 0, 1: 3})
    offsets.start_group("h", "t", {0: 0})
    settle(offsets, "g", 0, 1, 4)
    settle(offsets, "h", 7)
    expected = state(offsets)
    offsets.close()
    assert state(opened(tmp_path)) == expected


def test_a_filter_is_journaled_until_a_checkpoint_has_it(tmp_path: Path) -> None:
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 5})
    offsets.save_filter("g", "t", FilterKind.TAG, "a || b")
    taken = offsets.snapshot()
    offsets.save_filter("g", "t", FilterKind.SQL92, "é > 1")
    offsets.write_skipped()
    journal = (tmp_path / "offsets.journal").read_bytes()
    assert journal.endswith(entry(10, 0, 0, 0, 12, "sql92 é > 1".encode()))
    offsets.write_skipped()
    assert (tmp_path / "offsets.journal").read_bytes() == journal, "once"
    offsets.write(taken)
    offsets.finish(taken)  # said since the snapshot: the new journal has it
    offsets.close()
    again = opened(tmp_path)
    assert again.saved_filter("g", "t") == ("é > 1", FilterKind.SQL92)
    again.save()
    assert read_entries((tmp_path / "offsets.journal").read_bytes())[0] == []
    again.close()
    assert opened(tmp_path).saved_filter("g", "t") == ("é > 1", FilterKind.SQL92)


def test_a_filter_waits_for_room_on_a_full_disk(tmp_path: Path) -> None:
    files = FaultyFiles()
    offsets = opened(tmp_path, files)
    offsets.start_group("g", "t", {0: 5})
    offsets.save_filter("g", "t", FilterKind.TAG, "a")
    files.full = {"append"}
    offsets.write_skipped()
    files.full = set()
    offsets.write_skipped()
    offsets.close()
    assert opened(tmp_path).saved_filter("g", "t") == ("a", FilterKind.TAG)


def test_a_tail_torn_at_every_byte_keeps_the_whole_entries_and_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "offsets.journal"
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 0})
    sizes, states = [path.stat().st_size], [state(offsets)]
    for queue_offset in (0, 2, 1):
        settle(offsets, "g", queue_offset)
        sizes.append(path.stat().st_size)
        states.append(state(offsets))
    offsets.close()
    content = path.read_bytes()
    for cut in range(sizes[0], len(content)):
        for tail in (b"", bytes(64), b"\xff" * 64):
            path.write_bytes(content[:cut] + tail)
            again = opened(tmp_path)
            whole = sum(size <= cut for size in sizes) - 1
            assert state(again) == states[whole]
            assert path.stat().st_size == sizes[whole]
            settle(again, "g", 40)
            again.close()
            assert 40 in state(opened(tmp_path))["g", "t", 0][1]


def test_a_restarted_journal_keeps_the_state(tmp_path: Path) -> None:
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 0})
    settle(offsets, "g", 0, 1, 5, 6, 9)
    offsets.save()
    settle(offsets, "g", 2)
    expected = state(offsets)
    assert expected == {("g", "t", 0): (3, (5, 6, 9))}
    offsets.close()
    assert state(opened(tmp_path)) == expected
    table = (tmp_path / "config" / "consumerOffset.json").read_bytes()
    assert table == b'{"offsetTable":{"t@g":{0:2}}}'


def test_a_kill_anywhere_in_a_save_changes_nothing(tmp_path: Path) -> None:
    for kill_at in range(20):
        directory = tmp_path / str(kill_at)
        directory.mkdir()
        files = FaultyFiles()
        offsets = opened(directory, files)
        offsets.start_group("g", "t", {0: 0})
        settle(offsets, "g", 0, 1, 5)
        offsets.save()
        settle(offsets, "g", 2, 7)
        expected = state(offsets)
        files.kill_at = kill_at
        try:
            offsets.save()
        except Killed:
            assert state(opened(directory)) == expected
        else:
            assert kill_at >= 2
            assert state(opened(directory)) == expected
            break


def fail(offsets: ConsumerOffsets, queue_offset: int, times: int) -> None:
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    progress.failures[queue_offset] = times
    offsets.record_failure(progress, queue_offset)


def failures(offsets: ConsumerOffsets) -> dict[int, int]:
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    return progress.failures


def test_failures_are_journaled_and_those_of_settled_messages_forgotten(tmp_path: Path) -> None:
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 0})
    begun = (tmp_path / "offsets.journal").read_bytes()
    fail(offsets, 3, 1)
    fail(offsets, 3, 2)
    fail(offsets, 4, 1)
    offsets.write_skipped()
    written = (tmp_path / "offsets.journal").read_bytes()
    assert written == begun + entry(8, 0, 0, 3, 2) + entry(8, 0, 0, 4, 1)
    offsets.write_skipped()
    assert (tmp_path / "offsets.journal").read_bytes() == written
    settle(offsets, "g", 4)
    offsets.close()
    again = opened(tmp_path)
    assert (failures(again), state(again)) == ({3: 2}, {("g", "t", 0): (0, (4,))})


def test_a_message_that_failed_more_often_than_an_entry_can_say_stops_nothing(
    tmp_path: Path,
) -> None:
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 0})
    fail(offsets, 0, 1 << 33)
    offsets.write_skipped()
    offsets.save()
    offsets.close()
    assert failures(opened(tmp_path)) == {0: (1 << 32) - 1}


@pytest.mark.parametrize("kill_at", range(5))
def test_a_kill_anywhere_in_a_save_keeps_the_failures(tmp_path: Path, kill_at: int) -> None:
    files = FaultyFiles()
    offsets = opened(tmp_path, files)
    offsets.start_group("g", "t", {0: 0})
    fail(offsets, 1, 7)
    offsets.write_skipped()
    files.kill_at = kill_at
    with contextlib.suppress(Killed):
        offsets.save()
    assert failures(opened(tmp_path)) == {1: 7}


def test_a_failed_append_changes_nothing_and_names_stay_right(tmp_path: Path) -> None:
    files = FaultyFiles()
    offsets = opened(tmp_path, files)
    offsets.start_group("g", "t", {0: 0})
    files.full = {"append"}
    with pytest.raises(DiskFull):
        offsets.start_group("lost", "t", {0: 0})
    with pytest.raises(DiskFull):
        settle(offsets, "g", 0)
    files.full = set()
    assert state(offsets) == {("g", "t", 0): (0, ())}
    offsets.start_group("h", "t", {0: 3})
    offsets.start_group("lost", "t", {0: 4})
    settle(offsets, "h", 3)
    expected = state(offsets)
    offsets.close()
    assert state(opened(tmp_path)) == expected


def test_a_journal_that_cannot_be_restarted_stays_the_journal(tmp_path: Path) -> None:
    files = FaultyFiles()
    offsets = opened(tmp_path, files)
    offsets.start_group("g", "t", {0: 0})
    files.full = {"append", "replace"}
    with pytest.raises(DiskFull):
        offsets.save()
    files.full = set()
    settle(offsets, "g", 0)
    assert state(opened(tmp_path)) == {("g", "t", 0): (1, ())}


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"offsetTable": []}', b'{"offsetTable":{"t@g":{"x":1}}}']
)
def test_a_table_that_cannot_be_read_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "consumerOffset.json"
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"consumerOffset\.json"):
        opened(tmp_path)
    assert path.read_bytes() == content


@given(st.binary(max_size=300))
def test_garbage_is_an_empty_journal(garbage: bytes) -> None:
    entries, names, end = read_entries(garbage)
    assert (entries, names, end) == ([], [], 0)


@given(st.sets(st.integers(0, 60)))
def test_runs_cover_exactly_their_offsets(queue_offsets: set[int]) -> None:
    runs = runs_of(sorted(queue_offsets))
    assert [o for first, count in runs for o in range(first, first + count)] == sorted(
        queue_offsets
    )
    ends = [first + count for first, count in runs]
    assert all(end < first for end, (first, _) in zip(ends, runs[1:], strict=False))


@given(st.integers(0, 10), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12))))
def test_progress_is_the_settled_prefix_whatever_the_order(
    start: int, runs: list[tuple[int, int]]
) -> None:
    progress = Progress("g", "t", 0, start)
    settled = set(range(start))
    for run in runs:
        progress.apply([run])
        settled |= set(range(run[0], run[0] + run[1]))
        offset = start
        while offset in settled:
            offset += 1
        assert progress.consumer_offset == offset
        assert set(progress.settled) == {above for above in settled if above > offset}
        assert all(progress.is_settled(each) for each in settled)


def test_a_run_of_more_than_an_entry_can_count_takes_two(tmp_path: Path) -> None:
    """A group that pulls may commit any distance at once."""
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 5})
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    distance = (1 << 33) + 7
    offsets.settle([(progress, [(5, distance)])])
    offsets.close()
    assert state(opened(tmp_path)) == {("g", "t", 0): (5 + distance, ())}


def test_a_journal_whose_name_is_not_durable_is_not_synced(tmp_path: Path) -> None:
    """After a power cut the old one may stand there, without what came since."""
    files = FaultyFiles()
    offsets = opened(tmp_path, files)
    taken = offsets.snapshot()
    files.dir_sync_failures = 1
    with pytest.raises(SyncFailed):
        offsets.finish(taken)
    with pytest.raises(SyncFailed):
        offsets.start_group("g", "t", {0: 5})
    offsets.save()
    offsets.start_group("g", "t", {0: 5})
    assert state(opened(tmp_path)) == {("g", "t", 0): (5, ())}


def test_a_reset_that_finds_no_room_changes_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    offsets = opened(tmp_path, files)
    offsets.start_group("g", "t", {0: 5})
    settle(offsets, "g", 5, 7)
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    offsets.skip(progress, 9, 4)
    before = state(offsets)
    files.full.add("append")
    with pytest.raises(DiskFull):
        offsets.reset([(progress, 0)], lease_floor=8)
    assert (state(offsets), list(progress.skipped)) == (before, [(9, 4)])
    assert (progress.reset_count, progress.lease_floor) == (0, 0)


def test_golden_bytes_of_settled_bits(tmp_path: Path) -> None:
    """A checkpoint leaves a bitmap where runs would take more."""
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {7: 0})
    progress = offsets.find("g", "t", 7)
    assert progress is not None
    offsets.settle([(progress, [(1, 1), (3, 2), (9, 1), (2_000, 5)])])
    offsets.save()
    expected = (
        entry(1, 0, 3, 0, 0, b"t@g")
        + entry(9, 0, 7, 0, 2, bytes([0b0001_1010, 0b10]))
        + entry(2, 0, 7, 2_000, 5)
    )
    assert (tmp_path / "offsets.journal").read_bytes() == expected
    entries, _, _ = read_entries(expected)
    assert [(each.first, each.count, each.bits) for each in entries] == [
        (0, 10, 0b10_0001_1010),
        (2_000, 5, 0),
    ]


@given(st.sets(st.integers(0, 3_000), max_size=400), st.sets(st.integers(0, 3_000), max_size=9))
def test_what_is_settled_in_any_order_survives_a_checkpoint_and_a_kill(
    before: set[int], after: set[int]
) -> None:
    with TemporaryDirectory() as directory:
        offsets = opened(Path(directory))
        offsets.start_group("g", "t", {0: 0})
        settle(offsets, "g", *before)
        offsets.save()
        settle(offsets, "g", *after)
        expected = state(offsets)
        offsets.close()
        again = opened(Path(directory))
        assert state(again) == expected
        again.close()


def test_a_million_that_are_settled_in_no_order_take_little_of_a_checkpoint(
    tmp_path: Path,
) -> None:
    """Such is the schedule, whose messages come due in another order than they came in."""
    offsets = opened(tmp_path)
    offsets.start_group("g", "t", {0: 0})
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    progress.apply([(offset, 1) for offset in range(1, 1_000_000, 3)])
    offsets.save()
    expected = state(offsets)
    offsets.close()
    assert (tmp_path / "offsets.journal").stat().st_size < 200_000  # 9 MB as one entry each
    assert state(opened(tmp_path)) == expected


def test_settled_bits_that_are_cut_short_or_changed_end_the_journal() -> None:
    name = entry(1, 0, 3, 0, 0, b"t@g")
    bits = entry(9, 0, 0, 64, 3, b"\xff\x0f\x01")
    assert len(read_entries(name + bits)[0]) == 1
    for length in range(len(bits)):
        assert read_entries(name + bits[:length])[2] == len(name)
    for at in range(len(bits)):
        changed = bytearray(bits)
        changed[at] ^= 1
        assert read_entries(name + bytes(changed))[2] == len(name)


def test_an_entry_of_a_newer_engine_is_refused_and_never_taken_for_a_settle() -> None:
    name = entry(1, 0, 3, 0, 0, b"t@g")
    with pytest.raises(StoreCorrupt, match="entry of kind 11 at 31 of the offset journal"):
        read_entries(name + entry(11, 0, 0, 5, 1))
