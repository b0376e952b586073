"""The merge of queues against what a plain sort gives: order, pages, limits of work and memory."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import pytest
from asgiref.sync import async_to_sync
from hypothesis import given
from hypothesis import strategies as st

from mqservice.delivery.limits import (
    BROWSE_BYTES_MAX,
    MERGE_BYTES_MAX,
    PAGE_PULL_COUNT_MAX,
)
from mqservice.delivery.reading.queue_merge import WINDOW_UNITS, QueueMerge, QueueRange
from mqservice.delivery.reading.walk import NO_END, BrowseQuery, SearchQuery
from mqservice.store import (
    OffsetAtTimeReply,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
    PullStatus,
    Record,
)
from tests.mqservice.delivery.store_double import StoreDouble

PAGES_MAX = 10_000
MIB = 1024 * 1024


@dataclass
class Queues(StoreDouble):
    """Queues whose records are given, with a first offset and few units for each pull by tag or
    condition, which both want those with a tag.
    """

    logs: list[list[Record]] = field(default_factory=list)
    min_offset: int = 0
    units_max: int = 3
    pulls: int = 0
    look_ups: int = 0
    reader: QueueMerge | None = None
    waiting_bytes_max: int = 0

    async def pull(self, request: PullRequest) -> tuple[PullHead, list[Record]]:
        self.pulls += 1
        if self.reader is not None:
            self.waiting_bytes_max = max(self.waiting_bytes_max, self.reader._waiting_bytes)
        log = self.logs[request.queue_id]
        offset, high = request.queue_offset, len(log)
        if not self.min_offset <= offset <= high:
            corrected = min(max(offset, self.min_offset), high)
            return self._head(PullStatus.OFFSET_ILLEGAL, corrected, high), []
        if offset == high:
            return self._head(PullStatus.NO_NEW_MSG, offset, high), []
        found: list[Record] = []
        bytes_left = request.bytes_max
        is_filtered = bool(request.tags or request.filter)
        for record in log[offset : offset + (self.units_max if is_filtered else high)]:
            if not is_filtered or record.tag:
                if found and len(record.body) > bytes_left:
                    break
                found.append(record)
                bytes_left -= len(record.body)
            offset += 1
            if len(found) == request.messages_max:
                break
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MSG
        return self._head(status, offset, high), found

    async def offset_at_time(self, request: OffsetAtTimeRequest) -> OffsetAtTimeReply:
        self.look_ups += 1
        log = self.logs[request.queue_id]
        offsets = [
            max(self.min_offset, bisect_left(log, at_ms, key=lambda each: each.store_timestamp_ms))
            for at_ms in (request.timestamp_ms, *request.later_ms)
        ]
        return OffsetAtTimeReply(
            queue_offset=offsets[0],
            min_offset=self.min_offset,
            max_offset=len(log),
            later_offsets=offsets[1:],
        )

    def _head(self, status: PullStatus, next_offset: int, max_offset: int) -> PullHead:
        return PullHead(
            status=status,
            next_offset=next_offset,
            min_offset=self.min_offset,
            max_offset=max_offset,
        )


def queues_of(places: list[tuple[int, bool]], queue_count: int, body: bytes = b"x") -> Queues:
    """Records in the order of the log; each in a queue, with the tag ``t`` or none."""
    logs: list[list[Record]] = [[] for _ in range(queue_count)]
    for number, (queue_id, has_tag) in enumerate(places):
        log = logs[queue_id % queue_count]
        log.append(
            Record(
                topic="t",
                queue_id=queue_id % queue_count,
                queue_offset=len(log),
                physical_offset=number,
                born_timestamp_ms=0,
                store_timestamp_ms=number // 3,  # several in a millisecond
                reconsume_times=0,
                body=body,
                tag="t" if has_tag else None,
                keys=[],
                message_group=None,
                message_id=str(number),
                properties={},
            )
        )
    return Queues(logs=logs)


def question_of(tags: list[str], *, newest_first: bool = False, condition: str = "") -> BrowseQuery:
    kind = SearchQuery if newest_first else BrowseQuery
    return kind(None, tags, None, None, None, None, condition)


@async_to_sync
async def walk(
    store: Queues,
    *,
    limit: int,
    tags: list[str] | None = None,
    end: int = NO_END,
    newest_first: bool = False,
    condition: str = "",
    page_count: int = PAGES_MAX,
) -> list[list[int]]:
    """Places in the log of the messages of each page, until the last one or so many."""
    question = question_of(tags or [], newest_first=newest_first, condition=condition)
    positions = [NO_END if newest_first else 0] * len(store.logs)
    pages: list[list[int]] = []
    while len(pages) < page_count:
        ranges = [
            QueueRange(queue_id=queue_id, position=position, end=end)
            for queue_id, position in enumerate(positions)
        ]
        merge = QueueMerge(store, "t", ranges, question=question, messages_max=limit)
        store.reader, pulls_before = merge, store.pulls
        page = await merge.page()
        assert store.pulls - pulls_before <= PAGE_PULL_COUNT_MAX + 12 * len(positions)
        assert page.is_last or page.records or page.positions != positions
        positions = page.positions
        pages.append([record.physical_offset for record in page.records])
        if page.is_last:
            return pages
    assert page_count < PAGES_MAX, f"{PAGES_MAX} pages and no end"
    return pages


@given(
    places=st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=80),
    queue_count=st.integers(1, 5),
    limit=st.integers(1, 10),
    selection=st.sampled_from(["all", "tag", "condition"]),
    newest_first=st.booleans(),
    first=st.integers(0, 6),
    length=st.integers(0, 20),
)
def test_pages_are_the_log_in_order_without_what_was_not_asked_for(
    places: list[tuple[int, bool]],
    queue_count: int,
    limit: int,
    selection: str,
    newest_first: bool,
    first: int,
    length: int,
) -> None:
    store = queues_of(places, queue_count)
    store.min_offset = min([first, *(len(log) for log in store.logs)])
    end = length if length % 2 else NO_END
    first_wanted = store.min_offset
    if newest_first:  # the lanes end where they have come down to
        first_wanted, end = max(length, store.min_offset), NO_END

    pages = walk(
        store,
        limit=limit,
        tags=["t"] if selection == "tag" else None,
        condition="n > 0" if selection == "condition" else "",
        end=length if newest_first else end,
        newest_first=newest_first,
    )

    assert [number for page in pages for number in page] == sorted(
        (
            record.physical_offset
            for log in store.logs
            for record in log
            if first_wanted <= record.queue_offset < end
            and (record.tag == "t" or selection == "all")
        ),
        reverse=newest_first,
    )
    assert all(len(page) <= limit for page in pages)


def test_a_rare_tag_is_found_behind_many_others_in_pages_of_bounded_work() -> None:
    store = queues_of([(0, False)] * 3_000 + [(1, True), (0, True), (3, True)], 4)

    pages = walk(store, limit=10, tags=["t"])

    assert [number for page in pages for number in page] == [3_000, 3_001, 3_002]
    assert len(pages) > 1


@pytest.mark.parametrize("newest_first", [False, True])
def test_many_large_messages_take_bounded_memory_and_lose_nothing(newest_first: bool) -> None:
    queue_count = 64
    places = [(number * 7 % queue_count, True) for number in range(2 * queue_count)]
    store = queues_of(places, queue_count, body=bytes(MIB))

    pages = walk(store, limit=256, newest_first=newest_first, end=0 if newest_first else NO_END)

    numbers = [number for page in pages for number in page]
    assert numbers == sorted(range(2 * queue_count), reverse=newest_first)
    assert max(map(len, pages)) == BROWSE_BYTES_MAX // MIB
    # What comes next is kept whatever waits already.
    assert MIB < store.waiting_bytes_max <= MERGE_BYTES_MAX + MIB < queue_count * MIB


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_match_is_on_the_first_page_while_nothing_is_found_in_the_other_queues(
    newest_first: bool,
) -> None:
    """Which are longer than one page looks through."""
    others = [(1 + number % 3, False) for number in range(60_000)]
    store = queues_of([*others, (0, True)] if newest_first else [(0, True), *others], 4)
    store.units_max = WINDOW_UNITS

    pages = walk(
        store,
        limit=10,
        newest_first=newest_first,
        end=0 if newest_first else NO_END,
        condition="n > 0",
        page_count=2,
    )

    assert pages == [[60_000 if newest_first else 0], []]


def test_the_first_page_has_what_the_newest_messages_of_all_queues_have() -> None:
    """All matches are in one queue: the others are not looked through further than it is."""
    places = [(number % 4, number % 4 == 0 and number % 400 == 0) for number in range(120_000)]
    store = queues_of(places, 4)
    store.units_max = WINDOW_UNITS

    [page] = walk(store, limit=50, newest_first=True, end=0, condition="n > 0", page_count=1)

    assert page == list(range(119_600, 99_600, -400))
    assert store.look_ups < PAGE_PULL_COUNT_MAX


def test_queues_of_which_only_the_newest_part_matches_show_it_on_the_first_page() -> None:
    """Each takes several pulls to come down to a window of which one pull holds all matches."""
    queue_count = 64
    count = 900 * queue_count
    places = [(number, number >= 820 * queue_count) for number in range(count)]
    store = queues_of(places, queue_count)
    store.units_max = WINDOW_UNITS

    [page] = walk(store, limit=50, newest_first=True, end=0, condition="n > 0", page_count=1)

    assert page == list(range(count - 1, count - 51, -1))


def test_a_queue_that_lost_its_end_has_nothing_more() -> None:
    store = queues_of([(0, False), (1, False)], 2)

    @async_to_sync
    async def page() -> tuple[list[int], list[int], bool]:
        ranges = [QueueRange(queue_id=0, position=9), QueueRange(queue_id=1, position=0)]
        made = await QueueMerge(store, "t", ranges, question=question_of([]), messages_max=5).page()
        return [record.physical_offset for record in made.records], made.positions, made.is_last

    assert page() == ([1], [9, 1], True)
