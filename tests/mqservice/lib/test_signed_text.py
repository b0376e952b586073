"""Signed texts: one spelling, one claim, one signer."""

from __future__ import annotations

import pytest

from mqservice.lib.signed_text import read_signed, signed_text
from mqservice.lib.signing import Signer

SIGNER = Signer("a secret of at least 32 characters", "cursor")
CLAIM = b"tenant 1"


def read(text: str, claim: bytes = CLAIM) -> bytes | None:
    return read_signed(SIGNER, text, claim, chars_max=64)


@pytest.mark.parametrize("content", [b"", b"\xfb\xff", bytes(32)])
def test_a_text_reads_back_for_its_claim_alone(content: bytes) -> None:
    text = signed_text(SIGNER, content, CLAIM)

    assert read(text) == content
    assert read(text, b"tenant 2") is None


def test_another_spelling_of_the_same_bytes_is_refused() -> None:
    text = signed_text(SIGNER, b"\xfb\xff", CLAIM)
    assert text[:2] == "-_"

    assert len(text) % 4 == 0
    for other in (f"+/{text[2:]}", f"{text}=", f"{text}====", f" {text}", f"{text}\n", "é" + text):
        assert read(other) is None
    # One byte over: the last letter has bits that mean nothing.
    short = signed_text(SIGNER, b"", CLAIM)
    spelt = short[:-1] + chr(ord(short[-1]) + 1)
    assert read(short) == b""
    assert read(spelt) is None


def test_a_longer_text_is_not_looked_at() -> None:
    assert read(signed_text(SIGNER, bytes(33), CLAIM)) is None
