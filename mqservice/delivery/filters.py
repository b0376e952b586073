"""The filter that a receive or a subscription brings, in the words of its author.

    "created || paid"  ──▶ tags   ─┐
    {"sql": "a > 5"}   ──▶ SQL92  ─┴─▶ [filter_of] ──▶ canonical text and kind, for the engine

It is compiled here too, so that a wrong one is refused before anything is asked of the engine.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mqservice.delivery.decoding import Fault
from mqservice.store import FilterInvalid, FilterKind, known_filter


class SqlFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition in SQL92 on the properties of a message; a map in both subprotocols."""

    sql: str


FilterForm = str | SqlFilter


class WantedFilter(NamedTuple):
    """``text`` is canonical; empty when all messages are wanted."""

    text: str
    kind: FilterKind


EVERYTHING = WantedFilter("", FilterKind.TAG)


def filter_of(pointer: str, form: FilterForm | None) -> WantedFilter:
    """Raises Fault ILLEGAL_FILTER, with the place in the text and the reason."""
    if form is None:
        return EVERYTHING
    text, kind = form, FilterKind.TAG
    if isinstance(form, SqlFilter):
        pointer, text, kind = pointer + "/sql", form.sql, FilterKind.SQL92
    assert isinstance(text, str)
    if not text:
        raise Fault(pointer, "ILLEGAL_FILTER", "an empty filter; leave it out for all messages")
    try:
        wanted = known_filter(text, kind)
    except FilterInvalid as exc:
        raise Fault(pointer, "ILLEGAL_FILTER", str(exc)) from exc
    return EVERYTHING if wanted.is_all else WantedFilter(wanted.text, wanted.kind)
