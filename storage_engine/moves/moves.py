"""Moves messages to another place, each exactly once: the new record says which message it settles.

    retry, dead letters, schedule ── Move ──▶ [Mover] ──▶ engine_puts ── durable ──▶ source settled

The source stays where it is, given to nobody, until the record that takes its place is durable.
Then it is settled, and the journal says so; before that only the new record does, which recovery
reads. So a process that is killed, or a power cut, leaves one of the two and never none or both.
A reset of the source meanwhile wins, here and in recovery: what is to be delivered again stays.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from storage_engine.config import MIB
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.offset_bits import runs_of
from storage_engine.delivery.progress import Progress
from storage_engine.errors import RecordRefused
from storage_engine.puts.engine_puts import EnginePuts, PutBatch
from storage_engine.records.settles import Settles

_BATCH_BYTES_MAX: Final = 4 * MIB  # appended without a pause


class Move(NamedTuple):
    """``record`` takes the place of one message; ``settles_for`` of that is one of its
    properties.
    """

    record: bytes
    progress: Progress
    queue_offset: int


class Mover:
    """See the module's docstring.

    ``batch_bytes_max``: for the records of one call; a larger one may go alone.
    """

    def __init__(self, puts: EnginePuts, consumer_offsets: ConsumerOffsets) -> None:
        self._puts = puts
        self.batch_bytes_max = min(puts.batch_bytes_max, _BATCH_BYTES_MAX)
        self._consumer_offsets = consumer_offsets

    def check(self, record: bytes) -> None:
        """Raises ``RecordRefused`` when the record does not even fit alone."""
        if len(record) > self._puts.batch_bytes_max:
            raise RecordRefused(
                f"the record has {len(record)} bytes, but at most "
                f"{self._puts.batch_bytes_max} fit into a segment of the log"
            )

    def move(self, moves: list[Move], moved: Callable[[], None]) -> list[int]:
        """Append the records; their queue offsets. ``moved`` is called when the sources are
        settled, those that were not reset meanwhile.

        Raises ``DiskFull``, ``StoreReadOnly``; then nothing was appended.
        """
        sources: dict[Progress, list[int]] = {}
        for move in moves:
            sources.setdefault(move.progress, []).append(move.queue_offset)
        batch = self._puts.batch_of([move.record for move in moves])
        return self.move_batch(batch, list(sources.items()), moved)

    def move_batch(
        self,
        batch: PutBatch,
        sources: list[tuple[Progress, list[int]]],
        moved: Callable[[], None],
    ) -> list[int]:
        """The same for records that take the places ``sources`` of many messages."""
        reset_counts = [progress.reset_count for progress, _ in sources]

        def published() -> None:
            for (progress, queue_offsets), reset_count in zip(sources, reset_counts, strict=True):
                if progress.reset_count == reset_count:
                    runs = runs_of(queue_offsets)
                    self._consumer_offsets.settle_moved(progress, runs)
            moved()

        return self._puts.append(batch, published)


def settles_for(progress: Progress, queue_offset: int) -> Settles:
    """What a record must say that takes the place of this message."""
    return Settles(
        progress.group, progress.topic, progress.queue_id, queue_offset, progress.reset_count
    )
