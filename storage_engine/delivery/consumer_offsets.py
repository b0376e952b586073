"""The consumer offset of each group on each queue, and which messages above it are settled.

    delivery ── settle(progress, offsets) ──▶ [ConsumerOffsets] ── one entry ──▶ offset_journal
    checkpoint ── snapshot, write, finish ──▶ config/consumerOffset.json; the journal starts anew

Truth, like the commit log: nothing can rebuild it. ``consumer_offset`` moves only over the
contiguous settled prefix, so a crash redelivers and never skips. A settle is in the journal before
it is answered: kill -9 loses none, a power cut at most those of the last sync interval. What a
filter passes over is settled too, and journaled later: a crash lets the filter look at it again.
Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from storage_engine.delivery.offset_bits import OffsetBits, OffsetRuns, Run, runs_in
from storage_engine.delivery.offset_journal import COUNT_MAX, Beginning, JournalEntry, OffsetJournal
from storage_engine.delivery.progress import Progress
from storage_engine.disk import config_json
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, CONSUMER_OFFSET_FILE, JOURNAL_FILE
from storage_engine.errors import StoreError
from storage_engine.filters.message_filter import FilterKind
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.settles import Settles

log = logging.getLogger(__name__)

Table = dict[str, dict[int, int]]  # ``topic@group`` → queue id → a number


class Snapshot(NamedTuple):
    """Consumer offsets at one moment; how often each was reset, where it was, and which leases
    that ended; when each client of a broadcast group was last seen; filters.
    """

    offsets: Table
    resets: Table
    lease_floors: Table
    beginning: Beginning
    client_seen_ms: dict[str, int]
    filters: dict[str, tuple[str, str]]


class _OffsetFile(msgspec.Struct):
    """``consumerOffset.json``: ``topic@group`` → queue id → consumer offset.

    ``resetTable`` and ``leaseFloorTable`` are ours: how often that was reset, where it was, and
    from which lease generation on receipts count. ``beginning`` too: with which of both new
    progress begins; ``clientSeenTable``: group and client → epoch ms; and ``filterTable``:
    ``topic@group`` → kind and text of the filter that it is read through. ``engine`` says that
    this engine wrote the file though it has fields of RocketMQ's.
    """

    offsetTable: dict[str, dict[int, int]] = {}
    resetTable: dict[str, dict[int, int]] | msgspec.UnsetType = msgspec.UNSET
    leaseFloorTable: dict[str, dict[int, int]] | msgspec.UnsetType = msgspec.UNSET
    beginning: Beginning | msgspec.UnsetType = msgspec.UNSET
    clientSeenTable: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    filterTable: dict[str, tuple[str, str]] | msgspec.UnsetType = msgspec.UNSET
    engine: int | msgspec.UnsetType = msgspec.UNSET


def is_saved_by_rocketmq(path: Path) -> bool:
    """Whether a RocketMQ broker was the last to write this ``consumerOffset.json``.

    Raises ``StoreCorrupt`` when it cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    saved = config_json.decode(content, _OffsetFile, path)
    unknown = config_json.unknown_fields(content, _OffsetFile.__struct_fields__, path)
    return bool(unknown) and not saved.engine


class ConsumerOffsets:
    """See the module's docstring."""

    def __init__(self, files: Files, store_path: Path) -> None:
        self._files = files
        self._path = store_path / CONFIG_DIR / CONSUMER_OFFSET_FILE
        self._table: dict[tuple[str, str], dict[int, Progress]] = {}
        self._journal = OffsetJournal(files, store_path / JOURNAL_FILE)
        self._unknown: dict[str, msgspec.Raw] = {}  # RocketMQ's, kept as they are
        # Passed over by filters and not journaled yet.
        self._skipped: dict[Progress, list[Run]] = {}
        # Whose failures have changed and are not journaled yet, by queue offset.
        self._failed: dict[Progress, dict[int, int]] = {}
        # Above all progress ever dropped: what settles a message of a deleted group, a record or a
        # receipt, must not settle one for a new group of the same name.
        self._beginning = Beginning()
        self._dropped: dict[tuple[str, str], None] = {}  # since the last snapshot
        # Group and client → epoch ms; ``broadcast_clients`` keeps it, here it is only written down.
        self.client_seen_ms: dict[str, int] = {}
        # Kind and text: what a group has still to do is known after a restart, before it reads.
        self._filters: dict[str, tuple[str, str]] = {}
        self._said: dict[tuple[str, str], tuple[str, str]] = {}  # and not journaled yet

    def load(self, *, is_foreign: bool = False) -> None:
        """Read the saved table and replay the journal over it; changes no file.

        ``is_foreign``: RocketMQ ran on the store since this engine did. Then its table says where
        the groups are, and the journal what is settled above that. ``open`` must follow.

        Raises ``StoreCorrupt`` when table or journal cannot be read.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b"{}"
        saved = config_json.decode(content, _OffsetFile, self._path)
        self._unknown = config_json.unknown_fields(
            content, _OffsetFile.__struct_fields__, self._path
        )
        is_foreign |= bool(self._unknown) and not saved.engine
        for name, offsets in saved.offsetTable.items():
            topic, _, group = name.partition("@")  # the group may be one's client, with another @
            reset_counts = saved.resetTable.get(name, {}) if saved.resetTable else {}
            floors = saved.leaseFloorTable.get(name, {}) if saved.leaseFloorTable else {}
            for queue_id, consumer_offset in offsets.items():
                progress = self._add(group, topic, queue_id, consumer_offset)
                progress.reset_count = reset_counts.get(queue_id, 0)
                progress.lease_floor = floors.get(queue_id, 0)
        self._beginning = saved.beginning or Beginning()
        self.client_seen_ms = saved.clientSeenTable or {}
        self._filters = saved.filterTable or {}
        moved_on = set(self) if is_foreign else set()
        for entry in self._journal.read():
            self._replay(entry, moved_on)
        for progress in self:
            progress.drop_failures()

    def open(self) -> None:
        """Open the journal for what is settled from now on."""
        self._files.make_dirs(self._path.parent)
        self._journal.open()

    def _replay(self, entry: JournalEntry, moved_on: set[Progress]) -> None:
        if entry.is_dropped:
            self._table.pop((entry.group, entry.topic), None)
            self._filters.pop(f"{entry.topic}@{entry.group}", None)
            self._beginning = Beginning(entry.count, entry.first)
            return
        if entry.filter is not None:
            self._filters[f"{entry.topic}@{entry.group}"] = entry.filter
            return
        progress = self.find(entry.group, entry.topic, entry.queue_id)
        if progress is None:
            progress = self._add(entry.group, entry.topic, entry.queue_id, 0)
        if entry.is_lease_floor:
            progress.lease_floor = entry.first
        elif entry.is_reset and progress in moved_on:
            progress.reset(progress.consumer_offset, entry.count)
        elif entry.is_reset:
            progress.reset(entry.first, entry.count)
        elif entry.is_position:
            progress.apply([(0, entry.first)])
        elif entry.is_skipped:
            progress.skip(entry.first, entry.count)
        elif entry.is_failed:
            progress.failures[entry.first] = entry.count
        elif entry.bits:
            progress.apply(list(runs_in(entry.first, entry.bits)))
        else:
            progress.apply([(entry.first, entry.count)])

    def _add(self, group: str, topic: str, queue_id: int, consumer_offset: int) -> Progress:
        progress = Progress(group, topic, queue_id, consumer_offset)
        self._table.setdefault((group, topic), {})[queue_id] = progress
        return progress

    def find(self, group: str, topic: str, queue_id: int) -> Progress | None:
        return self._table.get((group, topic), {}).get(queue_id)

    def has_started(self, group: str, topic: str) -> bool:
        """True when the group has read the topic before."""
        return (group, topic) in self._table

    def start_group(
        self, group: str, topic: str, positions: dict[int, int], *, is_synced: bool = True
    ) -> None:
        """A group's first positions on queues of a topic, by queue id; all or none.

        Durable on return (one fdatasync): begun again after a power cut, ``latest`` would be later
        and skip messages. Unless ``is_synced`` it may be begun again. Raises ``DiskFull``,
        ``SyncFailed``.
        """
        begun = []
        for queue_id, consumer_offset in positions.items():
            assert self.find(group, topic, queue_id) is None
            begun.append(Progress(group, topic, queue_id, consumer_offset))
            begun[-1].reset_count, begun[-1].lease_floor = self._beginning
        if self._beginning.reset_count:
            self._journal.write_resets(begun)
        else:
            self._journal.write_positions(group, topic, positions)
        if is_synced:
            self._journal.sync()
        by_queue = self._table.setdefault((group, topic), {})
        by_queue.update({progress.queue_id: progress for progress in begun})

    def drop(self, is_gone: Callable[[str, str], bool], *, lease_floor: int) -> None:
        """Delete the progress of (group, topic) pairs that no longer exist; durable on return (one
        fdatasync).

        ``lease_floor``: leases of a lower generation count nowhere that anybody begins from now on.

        Raises ``DiskFull``, ``SyncFailed``.
        """
        gone = [name for name in self._table if is_gone(*name)]
        if not gone:
            return
        resets = [progress.reset_count for name in gone for progress in self._table[name].values()]
        reset_count = max(self._beginning.reset_count, 1 + max(resets))
        beginning = Beginning(reset_count, lease_floor)
        self._journal.write_dropped(gone, beginning)
        self._beginning = beginning
        for name in gone:
            del self._table[name]
            self._dropped[name] = None
            self._filters.pop(f"{name[1]}@{name[0]}", None)
            self._said.pop(name, None)
        # Journaled after this, they would begin it anew.
        kept = [each for each in self._skipped.items() if not is_gone(each[0].group, each[0].topic)]
        self._skipped = dict(kept)
        left = [each for each in self._failed.items() if not is_gone(each[0].group, each[0].topic)]
        self._failed = dict(left)
        self._journal.sync()

    def save_filter(self, group: str, topic: str, kind: FilterKind, text: str) -> None:
        """Remember the filter that a group reads a topic through; in the journal by the next tick.

        Only what counts lag asks: the first member after a start says the filter again.
        """
        self._filters[f"{topic}@{group}"] = self._said[group, topic] = kind.value, text

    def saved_filter(self, group: str, topic: str) -> tuple[str, FilterKind] | None:
        """Text and kind of the filter, as ``known_filter`` takes them; None: not known."""
        kind, text = self._filters.get(f"{topic}@{group}", ("", ""))
        return (text, FilterKind(kind)) if kind in set(FilterKind) else None

    def settle(self, settled: list[tuple[Progress, list[Run]]]) -> None:
        """Journal, then apply; all or nothing. One write, no sync. Raises ``DiskFull``."""
        self._journal.write_settled(settled, self._skipped)
        self._skipped.clear()
        for progress, runs in settled:
            progress.apply(runs)

    def skip(self, progress: Progress, first: int, count: int) -> None:
        """Settle messages that a filter passed over; in the journal with the next settle, or by
        ``write_skipped``.
        """
        progress.skip(first, count)
        runs = self._skipped.setdefault(progress, [])
        if runs and sum(runs[-1]) == first:
            first, count = runs[-1][0], runs.pop()[1] + count
        runs.append((first, count))

    def record_failure(self, progress: Progress, queue_offset: int) -> None:
        """A message has failed once more and keeps its place; in the journal by the next tick."""
        times = min(progress.failures[queue_offset], COUNT_MAX)
        self._failed.setdefault(progress, {})[queue_offset] = times

    def write_skipped(self) -> None:
        """Journal what filters have passed over since the last settle, failures, and other filters;
        every tick.

        On a full disk it waits: nobody has been told of it.
        """
        if not (self._skipped or self._failed or self._said):
            return
        try:
            self._journal.write_settled([], self._skipped, self._failed, self._said)
        except StoreError as exc:
            log.warning(
                "Could not journal filtered messages and failures; trying again at the next tick",
                extra={"action": "journal_full", "reason": str(exc)},
            )
        else:
            self._skipped.clear()
            self._failed.clear()
            self._said.clear()

    def settle_moved(self, progress: Progress, runs: list[Run]) -> None:
        """Settle messages whose successors are durable, or that are dead-lettered; cannot fail.

        On a full disk only the records that took their place say so, until the next checkpoint.
        """
        if self.find(progress.group, progress.topic, progress.queue_id) is not progress:
            return  # the group or the topic was deleted while they were on their way
        try:
            self._journal.write_settled([(progress, runs)])
        except StoreError as exc:
            log.warning(
                "Could not journal settled messages; the next checkpoint records them",
                extra={"action": "journal_full", "reason": str(exc)},
            )
        progress.apply(runs)

    def settle_recovered(self, settles: Iterable[Settles]) -> bool:
        """Settle what records found in the log say they took the place of; True when it was not.

        ``save`` must follow before a checkpoint passes those records.
        """
        is_changed = False
        for group, topic, queue_id, queue_offset, reset_count in settles:
            progress = self.find(group, topic, queue_id)
            if progress is None or progress.reset_count != reset_count:
                continue
            if not progress.is_settled(queue_offset):
                progress.apply([(queue_offset, 1)])
                is_changed = True
        return is_changed

    def clamp(self, queues: ConsumeQueues) -> bool:
        """Move those past the end of their queue back to it; True when ``save`` must follow.

        A power cut may leave settles durable whose messages of an async topic were not; new
        messages at those offsets must be delivered.
        """
        changed = False
        for progress in self:
            of_topic = queues.by_topic.get(progress.topic.encode(), [])
            has_queue = progress.queue_id < len(of_topic)
            max_offset = of_topic[progress.queue_id].max_offset if has_queue else 0
            changed = progress.clamp(max_offset) or changed
        if changed:
            log.warning(
                "Consumer offsets were past the end of their queues; moved them back to the end",
                extra={"action": "offsets_clamped"},
            )
        return changed

    def reset(self, positions: list[tuple[Progress, int]], *, lease_floor: int) -> None:
        """Move groups to other offsets; durable on return (one fdatasync); all or none.

        ``lease_floor``: leases of a lower generation end with it.

        Raises ``DiskFull`` with nothing changed; ``SyncFailed`` with all of it done, which a power
        cut may undo.
        """
        before = [
            (
                each,
                each.consumer_offset,
                each.settled,
                each.skipped,
                each.lease_floor,
                each.failures,
            )
            for each, _ in positions
        ]
        for progress, consumer_offset in positions:
            progress.settled, progress.skipped = OffsetBits(), OffsetRuns()
            progress.failures = {}
            progress.reset(consumer_offset, progress.reset_count + 1)
            progress.lease_floor = lease_floor
        try:
            self._journal.write_resets([progress for progress, _ in positions])
        except BaseException:
            for progress, consumer_offset, settled, skipped, floor, failures in before:
                progress.reset(consumer_offset, progress.reset_count - 1)
                progress.settled, progress.skipped = settled, skipped
                progress.lease_floor, progress.failures = floor, failures
            raise
        for progress, _ in positions:
            self._skipped.pop(progress, None)  # it was of before: a filter shall look again
            self._failed.pop(progress, None)
        self._journal.sync()

    @property
    def are_durable(self) -> bool:
        """Whether all that is journaled is durable. Any thread."""
        return self._journal.is_durable

    def sync(self) -> None:
        """Make all that is journaled durable; one fdatasync at most. Any thread."""
        self._journal.sync()

    def save(self) -> int:
        """Write ``consumerOffset.json`` and begin a new journal; the number of queues in it."""
        taken = self.snapshot()
        self.write(taken)
        return self.finish(taken)

    def snapshot(self) -> Snapshot:
        """All consumer offsets as they are now."""
        offsets: Table = {}
        resets: Table = {}
        floors: Table = {}
        for progress in self:
            name = _name(progress)
            offsets.setdefault(name, {})[progress.queue_id] = progress.consumer_offset
            if progress.reset_count:
                resets.setdefault(name, {})[progress.queue_id] = progress.reset_count
                floors.setdefault(name, {})[progress.queue_id] = progress.lease_floor
        self._dropped = {}
        return Snapshot(
            offsets,
            resets,
            floors,
            self._beginning,
            self.client_seen_ms.copy(),
            self._filters.copy(),
        )

    def write(self, taken: Snapshot) -> None:
        """Put a snapshot into ``consumerOffset.json``; durable on return. Any thread."""
        own = _OffsetFile(
            {},
            taken.resets or msgspec.UNSET,
            taken.lease_floors or msgspec.UNSET,
            taken.beginning if any(taken.beginning) else msgspec.UNSET,
            taken.client_seen_ms or msgspec.UNSET,
            taken.filters or msgspec.UNSET,
            1 if self._unknown else msgspec.UNSET,
        )
        fields = msgspec.json.decode(msgspec.json.encode(own), type=dict[str, msgspec.Raw])
        rows = [
            b"%b:%b" % (msgspec.json.encode(name), config_json.integer_table(offsets))
            for name, offsets in taken.offsets.items()
        ]
        fields["offsetTable"] = msgspec.Raw(b"{%b}" % b",".join(rows))
        self._files.replace(self._path, msgspec.json.encode({**self._unknown, **fields}))

    def finish(self, taken: Snapshot) -> int:
        """Begin a new journal with what the written snapshot lacks; the number of queues.

        A crash before it replays the old journal over the newer table, which changes nothing.
        """
        moved: list[Progress] = []
        above: list[Progress] = []
        skipped: dict[Progress, list[Run]] = {}
        failed: dict[Progress, dict[int, int]] = {}
        count = 0
        for progress in self:
            count += 1
            name, queue_id = _name(progress), progress.queue_id
            if (
                taken.offsets.get(name, {}).get(queue_id) != progress.consumer_offset
                or taken.resets.get(name, {}).get(queue_id, 0) != progress.reset_count
                or (progress.group, progress.topic) in self._dropped
                # RocketMQ keeps none of it when it writes ``consumerOffset.json``.
                or progress.reset_count
            ):
                moved.append(progress)
            if progress.settled:
                above.append(progress)
            if progress.skipped:
                skipped[progress] = list(progress.skipped)
            if progress.failures:
                progress.drop_failures()
                counts = progress.failures.items()
                failed[progress] = {at: min(times, COUNT_MAX) for at, times in counts}
        filters = {
            (group, topic): kind_and_text
            for name, kind_and_text in self._filters.items()
            if taken.filters.get(name) != kind_and_text
            for topic, _, group in (name.partition("@"),)
        }
        self._journal.restart(
            moved, above, skipped, failed, self._dropped, self._beginning, filters
        )
        self._said.clear()
        return count

    def __iter__(self) -> Iterator[Progress]:
        for by_queue in self._table.values():
            yield from by_queue.values()

    def close(self) -> None:
        self._journal.close()


def _name(progress: Progress) -> str:
    return f"{progress.topic}@{progress.group}"
