"""Receipts that are written and read together are those of one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.delivery.limits import RECEIPT_LIFE_MS
from mqservice.delivery.tokens.receipt_columns import READ_MIN, read_columns, write_columns
from mqservice.delivery.tokens.receipts import Receipt, Receipts
from mqservice.lib.signing import Signer

NOW_MS = 1_800_000_000_000
GROUP, TOPIC = "acme%billing", "acme%orders"
SECRET = "a secret of at least 32 characters"
RECEIPTS = Receipts(Signer(SECRET, "receipt"))
SINGLE_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

places = st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**62)), min_size=4, max_size=20)


def written(
    count: int = 12, *, group: str = GROUP, topic: str = TOPIC, client_id: str = ""
) -> list[str]:
    write = RECEIPTS.writer(group=group, lease_generation=7, expires_ms=NOW_MS, client_id=client_id)
    return [write(topic, number % 2, number) for number in range(count)]


def read_together(
    texts: list[str], receipts: Receipts = RECEIPTS, now_ms: int = NOW_MS
) -> list[Receipt] | None:
    columns = read_columns(receipts, texts, group=GROUP, expires_ms_min=now_ms - RECEIPT_LIFE_MS)
    if columns is None:
        return None
    return [
        Receipt(topic.decode(), queue_id, queue_offset, generation, NOW_MS)
        for topic, queue_id, generation, queue_offset in zip(*columns, strict=True)
    ]


def read_each(texts: list[str], now_ms: int = NOW_MS) -> list[Receipt | None]:
    return list(map(RECEIPTS.reader(group=GROUP, now_ms=now_ms), texts))


@given(
    topic=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40),
    generation=st.integers(0, 2**62),
    client_id=st.text("abcXYZ019._:@#-", max_size=40),
    places=places,
)
def test_they_are_written_alike(
    topic: str, generation: int, client_id: str, places: list[tuple[int, int]]
) -> None:
    delivery = {"lease_generation": generation, "expires_ms": NOW_MS}
    write = RECEIPTS.writer(group=GROUP, **delivery, client_id=client_id)
    queue_ids, queue_offsets = zip(*places, strict=True)
    texts = write_columns(
        RECEIPTS, queue_ids, queue_offsets,
        group=GROUP, topic=topic, **delivery, client_id=client_id,
    )  # fmt: skip
    assert texts == [write(topic, *place) for place in places]


@given(topic=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_they_are_read_alike(topic: str) -> None:
    texts = written(topic=topic)
    found = read_together(texts)
    assert found is not None
    assert found == read_each(texts)


@pytest.mark.parametrize("topic", ["t", "to", "top"])  # each leaves another last letter
@pytest.mark.parametrize("letter", SINGLE_ALPHABET)
def test_the_last_letter_means_as_much(topic: str, letter: str) -> None:
    texts = written(topic=topic)
    texts[-1] = texts[-1][:-1] + letter
    found = read_together(texts)
    if None in read_each(texts):
        assert found is None
    else:
        assert found == read_each(texts)


@pytest.mark.parametrize("at", [0, 2, 11])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: "B" + text[1:],
        lambda text: text[:40] + ("x" if text[40] != "x" else "y") + text[41:],
        lambda text: text[:-8] + ("x" if text[-8] != "x" else "y") + text[-7:],
        lambda text: text[:-1] + "=",
        lambda text: text[:-1] + "\n",
        lambda text: text[:-1] + "+",
        lambda text: text[:-1] + "\uff21",
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: "",
        lambda text: "A" * len(text),
        lambda text: written(group="acme%audit")[0],
        lambda text: written(topic="acme%order")[0],
        lambda text: written(client_id="me", topic="acme%ord")[0],
    ],
)
def test_one_that_is_not_like_the_others_is_left_to_be_read_on_its_own(
    at: int, change: Callable[[str], str]
) -> None:
    texts = written()
    texts[at] = change(texts[at])
    assert read_together(texts) is None


@pytest.mark.parametrize("chars", [*range(1, 70), 513])
def test_what_is_too_short_or_too_long_is_no_receipt(chars: int) -> None:
    assert read_together(["A" * chars] * 12) is None


def test_former_secrets_and_clients_are_left_to_be_read_one_by_one() -> None:
    rotated = Receipts(Signer("the new secret of 32 characters or so", "receipt", [SECRET]))
    assert read_together(written(), rotated) is None
    assert read_together(written(client_id="me")) is None


def test_they_grow_as_old() -> None:
    end_ms = NOW_MS + RECEIPT_LIFE_MS
    assert read_together(written(), now_ms=end_ms) == read_each(written(), now_ms=end_ms)
    assert read_together(written(), now_ms=end_ms + 1) is None


def test_a_few_are_left_to_be_read_one_by_one() -> None:
    assert read_together([]) is None
    assert read_together(written(READ_MIN - 1)) is None
    assert read_together(written(READ_MIN)) is not None


def test_offsets_stand_by_topic_queue_and_delivery() -> None:
    columns = read_columns(RECEIPTS, written(), group=GROUP, expires_ms_min=0)
    assert columns is not None
    assert dict(columns.by_queue()) == {
        (TOPIC, 0, 7): [0, 2, 4, 6, 8, 10],
        (TOPIC, 1, 7): [1, 3, 5, 7, 9, 11],
    }
