"""Cursors hold what they were made with, and nothing else is taken for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqservice.delivery.limits import CURSOR_CHARS_MAX
from mqservice.delivery.tokens.cursors import Cursors
from mqservice.lib.signing import Signer

SECRET = "a secret of at least 32 characters"
CURSORS = Cursors(Signer(SECRET, "cursor"))


def written(place: bytes = b"place") -> str:
    return CURSORS.write(place, topic="acme%orders", question=b"question")


@given(place=st.binary(max_size=3_000), topic=st.text(max_size=60), question=st.binary())
def test_a_cursor_reads_back(place: bytes, topic: str, question: bytes) -> None:
    text = CURSORS.write(place, topic=topic, question=question)

    assert CURSORS.read(text, topic=topic, question=question) == place
    assert len(text) <= CURSOR_CHARS_MAX


@given(st.text(max_size=200))
def test_no_text_is_taken_for_a_cursor(text: str) -> None:
    assert CURSORS.read(text, topic="acme%orders", question=b"question") is None


@given(position=st.integers(0, 200), letter=st.sampled_from("ABCxyz059-_=+/ \n"))
def test_a_changed_letter_makes_it_worthless(position: int, letter: str) -> None:
    good = written()
    position %= len(good)
    changed = good[:position] + letter + good[position + 1 :]

    read = CURSORS.read(changed, topic="acme%orders", question=b"question")

    assert (read is not None) == (changed == good)


def test_topic_question_secret_and_purpose_are_part_of_it() -> None:
    good = written()
    stranger = Cursors(Signer("another secret of 32 characters or more", "cursor"))
    receipts = Cursors(Signer(SECRET, "receipt"))
    rotated = Cursors(Signer("another secret of 32 characters or more", "cursor", [SECRET]))

    assert CURSORS.read(good, topic="acme%others", question=b"question") is None
    assert CURSORS.read(good, topic="acme%orders", question=b"questions") is None
    for reader in (stranger, receipts):
        assert reader.read(good, topic="acme%orders", question=b"question") is None
    assert rotated.read(good, topic="acme%orders", question=b"question") == b"place"


def test_the_longest_place_fits() -> None:
    text = written(bytes(256 * 9 + 3))  # offsets of 256 queues, as long as MessagePack makes them

    assert len(text) <= CURSOR_CHARS_MAX
