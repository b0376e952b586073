"""Receipts hold what they were made with, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.delivery.limits import RECEIPT_LIFE_MS
from mqservice.delivery.tokens.receipts import Receipt, Receipts
from mqservice.lib.signing import Signer

NOW_MS = 1_800_000_000_000
RECEIPTS = Receipts(Signer("a secret of at least 32 characters", "receipt"))


def written(queue_offset: int = 88_123) -> str:
    write = RECEIPTS.writer(group="acme%billing", lease_generation=7, expires_ms=NOW_MS)
    return write("acme%orders", 3, queue_offset)


@given(
    topic=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60),
    queue_id=st.integers(0, 2**31),
    queue_offset=st.integers(0, 2**62),
    lease_generation=st.integers(0, 2**62),
)
def test_a_receipt_reads_back(
    topic: str, queue_id: int, queue_offset: int, lease_generation: int
) -> None:
    write = RECEIPTS.writer(group="g", lease_generation=lease_generation, expires_ms=NOW_MS)

    text = write(topic, queue_id, queue_offset)

    assert RECEIPTS.reader(group="g", now_ms=NOW_MS)(text) == Receipt(
        topic, queue_id, queue_offset, lease_generation, NOW_MS
    )


@given(
    client_id=st.text("abcXYZ019._:@#-", min_size=1, max_size=128),
    topic=st.text("abc%_-", min_size=1, max_size=129),
)
def test_a_receipt_of_a_client_says_whose_it_is(client_id: str, topic: str) -> None:
    write = RECEIPTS.writer(group="g", lease_generation=7, expires_ms=NOW_MS, client_id=client_id)

    text = write(topic, 3, 88_123)

    read = RECEIPTS.reader(group="g", now_ms=NOW_MS)(text)
    assert read == Receipt(topic, 3, 88_123, 7, NOW_MS, client_id)


@given(st.text(max_size=200))
def test_no_text_is_taken_for_a_receipt(text: str) -> None:
    assert RECEIPTS.reader(group="acme%billing", now_ms=NOW_MS)(text) is None


@pytest.mark.parametrize(
    "respelled",
    [
        lambda text: text + "=",
        lambda text: text + "==",
        lambda text: text + "\n",
        lambda text: text[:8] + "\n" + text[8:],
        lambda text: text[:8] + "." + text[8:],
        lambda text: text.replace("-", "+").replace("_", "/"),
        lambda text: text.replace("A", "\uff21", 1),
    ],
)
def test_a_receipt_has_one_spelling(respelled: Callable[[str], str]) -> None:
    good = next(text for text in map(written, range(1_000)) if "-" in text or "_" in text)
    read = RECEIPTS.reader(group="acme%billing", now_ms=NOW_MS)
    assert read(good) is not None
    assert read(respelled(good)) is None


@given(position=st.integers(0, 200), letter=st.sampled_from("ABCxyz059-_"))
def test_a_changed_letter_makes_it_worthless(position: int, letter: str) -> None:
    good = written()
    position %= len(good) - 1  # the last letter has bits that mean nothing
    changed = good[:position] + letter + good[position + 1 :]

    read = RECEIPTS.reader(group="acme%billing", now_ms=NOW_MS)(changed)

    assert (read is not None) == (changed == good)


def test_another_group_or_another_secret_cannot_read_it() -> None:
    stranger = Receipts(Signer("another secret of 32 characters or more", "receipt"))

    assert RECEIPTS.reader(group="acme%audit", now_ms=NOW_MS)(written()) is None
    assert stranger.reader(group="acme%billing", now_ms=NOW_MS)(written()) is None


def test_a_former_secret_is_still_good_during_a_rotation() -> None:
    rotated = Receipts(
        Signer(
            "the new secret of 32 characters or so",
            "receipt",
            ["a secret of at least 32 characters"],
        )
    )

    assert rotated.reader(group="acme%billing", now_ms=NOW_MS)(written()) is not None


def test_a_receipt_outlives_its_lease_but_not_the_longest_retention() -> None:
    end_ms = NOW_MS + RECEIPT_LIFE_MS

    assert RECEIPTS.reader(group="acme%billing", now_ms=end_ms)(written()) is not None
    assert RECEIPTS.reader(group="acme%billing", now_ms=end_ms + 1)(written()) is None
