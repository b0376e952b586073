"""How large a filter may be, and which characters it must not contain."""

from __future__ import annotations

import re
from typing import Final

from storage_engine.errors import FilterInvalid

TEXT_BYTES_MAX: Final = 4 * 1024  # in UTF-8
# Parentheses and NOTs around one another. The parser recurses at most six calls for each.
DEPTH_MAX: Final = 50
# Names, literals, operators and signs; or tags.
NODES_MAX: Final = 200
_SHOWN_CHARS_MAX: Final = 20
# Properties hold none of these: 0x01 and 0x02 separate them, the others are refused when produced.
# Lone surrogates have no UTF-8.
_UNUSABLE: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")


def check_text(text: str) -> None:
    """Raises ``FilterInvalid`` for a text that is too long or has a character that none may."""
    # Characters first: a text of many megabytes is not even encoded.
    if len(text) > TEXT_BYTES_MAX:
        raise FilterInvalid(
            f"the filter has {len(text)} characters, at most {TEXT_BYTES_MAX} bytes are allowed"
        )
    unusable = _UNUSABLE.search(text)
    if unusable is not None:
        raise refusal(
            f"the character U+{ord(unusable[0]):04X}",
            unusable.start(),
            "a filter has no control characters and no lone surrogates",
        )
    text_bytes = len(text.encode())
    if text_bytes > TEXT_BYTES_MAX:
        raise FilterInvalid(
            f"the filter has {text_bytes} bytes in UTF-8, at most {TEXT_BYTES_MAX} are allowed"
        )


def refusal(what: str, at: int, right: str) -> FilterInvalid:
    """The error for ``what`` stands at index ``at`` of the text though ``right`` would be right."""
    return FilterInvalid(f"{what} at character {at + 1}: {right}")


def shown(text: str) -> str:
    """A piece of a filter as an error shows it: on one line and short."""
    if len(text) > _SHOWN_CHARS_MAX:
        text = text[:_SHOWN_CHARS_MAX] + "…"
    return repr(text)
