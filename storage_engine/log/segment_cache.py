"""Pieces of segments that only the bucket has, on the local disk for a while.

    log ── get(pieces) ──▶ [SegmentCache] ── a thread ──▶ bucket ── SHA-256 is right ──▶ BASE.part

``BASE.part`` is as long as the segment and has holes where a piece is missing; nobody may read
those. When there is no room for more, the segments that were read longest ago are dropped whole.
Nothing is taken over from an earlier run. Before ``serve`` whoever asks waits, as recovery does;
after it the engine's loop waits for nobody: pieces are fetched meanwhile. One thread at a time, and
the loop thread after ``serve``; the bucket is asked from a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from storage_engine.disk.files import Files, Mapping
from storage_engine.disk.layout import BUCKET_DIR, segment_name
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.errors import NotLocal, OldMessagesUnavailable, ReplicationUnavailable
from storage_engine.log.bucket_files import BucketFile
from storage_engine.replicated_log.errors import Damaged, LogError

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_FETCHES_MAX: Final = 8  # pieces at once
_TOGETHER_MAX: Final = 32  # pieces that one request may ask for before it looks again
_FAILING_MAX: Final = 1_024  # pieces that are remembered because they could not be fetched
_SUFFIX: Final = ".part"


class Pieces(Protocol):
    """Of a shard's snapshots; see ``SnapshotBucket``."""

    async def read(self, piece: str) -> bytes:
        """Raises ``LogError``."""


class SegmentCache:
    """See the module's docstring. ``open_pieces`` is called in the thread, when it is first needed;
    ``bytes_max`` is two segments or more.
    """

    def __init__(
        self,
        store: Path,
        files: Files,
        open_pieces: Callable[[], Pieces],
        *,
        bytes_max: int,
        segment_bytes: int,
    ) -> None:
        self._store = store
        self._files = files
        self._worker = _Worker(open_pieces)
        self._bytes_max = bytes_max
        # Of so many segments pieces may come at once and be all that is here.
        together = bytes_max // segment_bytes - 1
        self.pieces_max = max(1, min(together, _TOGETHER_MAX))
        self._places = asyncio.Semaphore(max(1, min(together, _FETCHES_MAX)))
        self._held: OrderedDict[int, _Held] = OrderedDict()  # the one read longest ago first
        self._fetches: dict[Wanted, asyncio.Task[None]] = {}
        self._is_clean = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_checked = False  # what is read now was looked for
        self.size_bytes = 0
        self._coming_bytes = 0
        self._trouble = ""  # why the last piece has not come
        self._failing: set[Wanted] = set()  # pieces that could not be fetched when last asked for
        self._outage_count = 0  # pieces that have not come because the bucket does not answer
        self.fetched_count = 0  # pieces
        self.failed_count = 0

    def clean(self) -> None:
        """Delete what an earlier run has left; the store is this process's by now."""
        if not self._is_clean:
            self._is_clean = True
            directory = self._store / BUCKET_DIR
            self._files.drop_leftovers(directory)
            for path in directory.glob(f"*{_SUFFIX}"):
                self._files.unlink(path)

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on nobody waits on the loop thread."""
        self._loop = loop

    def segment(self, file: BucketFile) -> BucketSegment:
        """The same one each time, as its map is closed when it is dropped."""
        held = self._held.get(file.base_offset)
        if held is not None and held.segment.file == file:
            return held.segment
        if held is not None:
            self.drop(held.segment)
        return BucketSegment(self._files, self._store, file, self)

    def missing(self, segment: BucketSegment, start: int, end: int) -> list[Wanted]:
        """The pieces of these positions that are not here; those that are count as just read."""
        held = self._held.get(segment.base_offset)
        if held is not None:
            self._held.move_to_end(segment.base_offset)
        piece_bytes = segment.file.piece_bytes
        numbers = range(start // piece_bytes, -(-min(end, segment.size_bytes) // piece_bytes))
        return [(segment, at) for at in numbers if held is None or at not in held.numbers]

    def need(self, wanted: list[Wanted], *, here_count: int = 0) -> None:
        """Nothing where nothing is missing. Raises ``NotLocal`` after ``serve``; before it waits,
        and raises ``ReplicationUnavailable``, ``DiskFull``.
        """
        if not wanted:
            return
        if self._loop is None:
            self._fetch_now(wanted)
            return
        some = wanted[: self.pieces_max]
        offset = some[0][0].base_offset
        raise NotLocal(
            f"messages of the segment at {offset} are only in the bucket, and on their way here; "
            "try again",
            partial(self.fetch, some),
            here_count,
            is_failing=not self._failing.isdisjoint(some),
        )

    def _fetch_now(self, wanted: list[Wanted]) -> None:
        pieces_max = min(self.pieces_max, _FETCHES_MAX)
        for at in range(0, len(wanted), pieces_max):
            some = wanted[at : at + pieces_max]
            for each in some:
                self._make_place(*each)
            futures = [self._worker.submit(self._download(*each)) for each in some]
            try:
                for each, future in zip(some, futures, strict=True):
                    future.result()
                    self._add(*each)
            except LogError as exc:
                concurrent.futures.wait(futures)
                raise ReplicationUnavailable(
                    f"a segment that only the bucket has cannot be read: {exc}"
                ) from exc

    async def fetch(self, wanted: Iterable[Wanted]) -> None:
        """After ``serve``. Two that want one piece wait for one request.

        Raises ``OldMessagesUnavailable``: the bucket does not answer, or what it has is damaged;
        ``DiskFull``.
        """
        tasks = []
        for each in wanted:
            task = self._fetches.get(each)
            if task is None:
                task = self._fetches[each] = asyncio.ensure_future(self._fetch(each))
                task.add_done_callback(partial(self._fetched, each))
            tasks.append(task)
        # One that waits may be cancelled; the others, and what is on its way, are not.
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    def _fetched(self, wanted: Wanted, task: asyncio.Task[None]) -> None:
        """Whoever waited for it may have gone."""
        del self._fetches[wanted]
        self._failing.discard(wanted)
        if not task.cancelled() and task.exception() is not None:
            if len(self._failing) >= _FAILING_MAX:
                self._failing.clear()
            self._failing.add(wanted)

    async def _fetch(self, wanted: Wanted) -> None:
        segment, number = wanted
        outage_count = self._outage_count
        start, end = segment.piece_range(number)
        async with self._places:
            if outage_count != self._outage_count:  # what was asked for before had to wait long
                raise OldMessagesUnavailable(self._trouble)
            if not self.missing(segment, start, end):
                return
            held = self._make_place(segment, number)
            held.coming += 1
            self._coming_bytes += end - start
            try:
                await asyncio.wrap_future(self._worker.submit(self._download(segment, number)))
            except (LogError, OSError) as exc:
                self._fail(segment, exc)
                raise OldMessagesUnavailable(self._trouble) from exc
            finally:
                held.coming -= 1
                self._coming_bytes -= end - start
            self._trouble = ""
            self._add(segment, number)

    def _fail(self, segment: BucketSegment, error: Exception) -> None:
        """Say so once, until a piece has come again. One that is damaged says nothing of others."""
        self.failed_count += 1
        self._outage_count += not isinstance(error, Damaged)
        if not self._trouble:
            log.error(
                "Could not read a segment that only the bucket has; whoever asks for its messages "
                "is told to try again",
                extra={
                    "action": "bucket_segment_unread",
                    "base_offset": segment.base_offset,
                    "reason": str(error),
                },
            )
        self._trouble = (
            f"the messages are only in the bucket, which cannot be read now: {error}. Try again "
            "later"
        )

    async def _download(self, segment: BucketSegment, number: int) -> None:
        """In the thread: a piece of the segment into its file."""
        piece = segment.file.pieces[number]
        content = await self._worker.pieces.read(piece)
        start, end = segment.piece_range(number)
        if len(content) != end - start:
            raise Damaged(f"{piece} has {len(content)} bytes, {segment.path.name} {end - start}")
        await asyncio.to_thread(self._files.write_at, segment.path, start, content)

    def _make_place(self, segment: BucketSegment, number: int) -> _Held:
        """Room for a piece, and the segment's file."""
        start, end = segment.piece_range(number)
        held = self._held.get(segment.base_offset)
        if held is None:
            self._files.create(segment.path, segment.size_bytes, 1, durable=False)
            held = self._held[segment.base_offset] = _Held(segment)
        self._held.move_to_end(segment.base_offset)
        for other in list(self._held.values()):
            if self.size_bytes + self._coming_bytes + end - start <= self._bytes_max:
                break
            if other is not held and not other.coming:
                self.drop(other.segment)
        return held

    def _add(self, segment: BucketSegment, number: int) -> None:
        held = self._held.get(segment.base_offset)
        if held is None:  # retention has deleted the segment meanwhile
            self._files.unlink(segment.path)
        elif number not in held.numbers:
            start, end = segment.piece_range(number)
            held.numbers.add(number)
            held.size_bytes += end - start
            self.size_bytes += end - start
            self.fetched_count += 1

    def drop(self, segment: BucketSegment) -> None:
        """Have nothing of a segment."""
        held = self._held.pop(segment.base_offset, None)
        if held is not None:
            held.segment.close()
            self.size_bytes -= held.size_bytes
            self._files.unlink(segment.path)

    def close(self) -> None:
        """Let go of the files and the bucket."""
        for task in self._fetches.values():
            task.cancel()
        for held in list(self._held.values()):
            self.drop(held.segment)
        self._worker.stop()


class BucketSegment(MappedFile):
    """A sealed segment that only the bucket has. Its bytes are those of the cache's file.

    ``view`` of it: all of its pieces are here, or are waited for; or, within ``is_checked`` of the
    cache, those that are read.
    """

    __slots__ = ("_cache", "file")

    is_local = False

    def __init__(self, files: Files, store: Path, file: BucketFile, cache: SegmentCache) -> None:
        path = store / BUCKET_DIR / f"{segment_name(file.base_offset)}{_SUFFIX}"
        super().__init__(files, path, file.base_offset, file.size_bytes, file.size_bytes)
        self.file = file
        self._cache = cache

    def piece_range(self, number: int) -> tuple[int, int]:
        """Positions of a piece in the segment."""
        start = number * self.file.piece_bytes
        return start, min(start + self.file.piece_bytes, self.size_bytes)

    @property
    def mapping(self) -> Mapping:
        if not self._cache.is_checked:
            self._cache.need(self._cache.missing(self, 0, self.size_bytes))
        return super().mapping

    def data_ranges(self, start: int) -> list[tuple[int, int]]:
        self._cache.need(self._cache.missing(self, 0, self.size_bytes))
        return super().data_ranges(start)


Wanted = tuple[BucketSegment, int]  # and the number of a piece


class _Held:
    """``coming``: pieces that are being fetched."""

    __slots__ = ("coming", "numbers", "segment", "size_bytes")

    def __init__(self, segment: BucketSegment) -> None:
        self.segment = segment
        self.numbers: set[int] = set()
        self.coming = 0
        self.size_bytes = 0


class _Worker:
    """A thread with a loop of its own, which begins with the first request."""

    def __init__(self, open_pieces: Callable[[], Pieces]) -> None:
        self._open_pieces = open_pieces
        self._pieces: Pieces | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def pieces(self) -> Pieces:
        """In the thread."""
        if self._pieces is None:
            self._pieces = self._open_pieces()
        return self._pieces

    def submit(
        self,
        work: Coroutine[Any, Any, ResultT],  # Any: nothing is sent into it
    ) -> concurrent.futures.Future[ResultT]:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="segment-cache", daemon=True
            )
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
