"""Pulling with tags: hash first, text after, bounded work, and offsets that always go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import BadRequest
from storage_engine.records.record_run import decode_records
from storage_engine.wire.reads import PullHead, PullRequest, PullStatus
from tests.storage_engine.doubles import OpenStore, message


def pull(
    store: OpenStore, offset: int, tags: list[str], messages_max: int = 10, bytes_max: int = 1 << 20
) -> tuple[PullHead, list[bytes]]:
    head, found = store.store.pull(
        PullRequest(
            topic="t",
            queue_id=0,
            queue_offset=offset,
            messages_max=messages_max,
            bytes_max=bytes_max,
            tags=tags,
        )
    )
    return head, [record.body for record in decode_records(store.store.read_records(found))]


async def put_tagged(store: OpenStore, *tags: str | None) -> None:
    for index, tag in enumerate(tags):
        await store.put(message(b"%d" % index, tag=tag))


async def test_only_wanted_tags_come_and_the_rest_is_passed(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_tagged(store, "a", "b", None, "a", "c")

        head, bodies = pull(store, 0, ["a", "c"])
        assert (head.status, head.next_offset, bodies) == (PullStatus.FOUND, 5, [b"0", b"3", b"4"])
        head, bodies = pull(store, 0, ["a"], messages_max=1)
        assert (head.status, head.next_offset, bodies) == (PullStatus.FOUND, 1, [b"0"])
        head, bodies = pull(store, 1, ["a"])
        assert (head.status, head.next_offset, bodies) == (PullStatus.FOUND, 5, [b"3"])


async def test_queue_without_a_wanted_tag_says_so_and_continues(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_tagged(store, "b", None, "b")

        assert pull(store, 1, ["a"]) == (
            PullHead(status=PullStatus.NO_MATCHED_MSG, next_offset=3, min_offset=0, max_offset=3),
            [],
        )
        assert pull(store, 3, ["a"])[0].status is PullStatus.NO_NEW_MSG
        assert pull(store, 4, ["a"])[0].status is PullStatus.OFFSET_ILLEGAL


async def test_tags_of_one_hash_are_distinguished_by_their_text(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_tagged(store, "Aa", "BB")

        assert pull(store, 0, ["BB"])[1] == [b"1"]


async def test_one_call_passes_over_a_bounded_number_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_engine.reads.pull._UNITS_MIN", 3)
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_tagged(store, *"bbbbba")

        head, _ = pull(store, 0, ["a"], messages_max=1)
        assert (head.status, head.next_offset) == (PullStatus.NO_MATCHED_MSG, 3)
        assert pull(store, head.next_offset, ["a"], messages_max=1)[1] == [b"5"]


async def test_bytes_end_a_page_before_the_message_that_does_not_fit(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_tagged(store, "a", "b", "a")

        head, bodies = pull(store, 0, ["a"], bytes_max=1)

        assert (head.next_offset, bodies) == (2, [b"0"])


@pytest.mark.parametrize("tags", [[""], ["a"] * 257])
async def test_impossible_tags_are_refused(tmp_path: Path, tags: list[str]) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        with pytest.raises(BadRequest):
            pull(store, 0, tags)
