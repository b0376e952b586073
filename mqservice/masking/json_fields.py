"""Hides fields of a body that is JSON, and says so when it is none.

    bytes ──▶ text ──▶ pairs, so that a name given twice stays twice ──▶ MASK in place ──▶ bytes
      └── no UTF-8, no JSON, too large, too deep ──▶ None: nothing of it may be shown

Names are compared as JSON means them, not as they are written: "\\u0063ard" is card. A text that
could be JSON itself is hidden where a path goes into it or may be anywhere. Numbers stay as they
were written.
"""

from __future__ import annotations

import json
from typing import Final

from mqservice.masking.limits import JSON_BYTES_MAX
from mqservice.masking.paths import Path, Places

MASK: Final = "•••••"
_MASKED: Final = json.dumps(MASK, ensure_ascii=False)
_COULD_BE_JSON: Final = ("{", "[", '"')


class _Number(str):
    """A number or word of JSON as it was written."""

    __slots__ = ()


class _Members(list[tuple[str, object]]):
    """An object."""


def hide_fields(body: bytes, paths: frozenset[Path]) -> tuple[bytes, int] | None:
    """The body without what the paths lead to, and how many values were hidden.

    None: it is no JSON object or array that could be looked through, so all of it is to be hidden.
    """
    if len(body) > JSON_BYTES_MAX:
        return None
    try:
        found: object = json.loads(
            body.decode(),
            object_pairs_hook=_Members,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse,
        )
        if not isinstance(found, list):
            return None
        writer = _Writer()
        text = writer.text_of(found, Places.at_root(paths))
        return text.encode(), writer.hidden_count
    except (ValueError, RecursionError):
        return None


class _Writer:
    """Writes a document anew, and counts what it hides."""

    def __init__(self) -> None:
        self.hidden_count = 0

    def text_of(self, value: object, places: Places) -> str:
        if isinstance(value, _Members):
            members = [
                f"{_quoted(name)}: {self._child(member, places.step(name, is_item=False))}"
                for name, member in value
            ]
            return "{" + ", ".join(members) + "}"
        if isinstance(value, list):
            items = [
                self._child(item, places.step(str(index), is_item=True))
                for index, item in enumerate(value)
            ]
            return "[" + ", ".join(items) + "]"
        if places and (places.is_on_the_way or _could_be_json(value)) and value is not None:
            return self._hidden()
        if isinstance(value, _Number):
            return str(value)
        if isinstance(value, str):
            return _quoted(value)
        return json.dumps(value)

    def _child(self, value: object, places: Places | None) -> str:
        return self._hidden() if places is None else self.text_of(value, places)

    def _hidden(self) -> str:
        self.hidden_count += 1
        return _MASKED


def _could_be_json(value: object) -> bool:
    return (
        isinstance(value, str)
        and not isinstance(value, _Number)
        and value.lstrip("\ufeff \t\r\n").startswith(_COULD_BE_JSON)
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")
