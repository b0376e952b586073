"""The filter of a receive, a subscription or a query: one language for all of them.

    "created || paid"  ──▶ tags   ─┐
    {"sql": "a > 5"}   ──▶ SQL92  ─┴─▶ [filter_of] ──▶ canonical text and kind, for the engine

``tag`` is always tags, ``filter`` is either, ``sql`` of a query string is a condition; where tags
stand beside a condition both must hold. It is compiled here too, so that a wrong one is refused
before anything is asked of the engine.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from mqservice.delivery.decoding import Fault
from mqservice.protocol.messages import FilterForm, SqlFilter
from mqservice.store import FilterInvalid, FilterKind, known_filter

_decode_sql = msgspec.json.Decoder(SqlFilter).decode
_WORDS: Final = re.compile(r"\s(?:IS|BETWEEN|IN|AND|OR|CONTAINS|STARTSWITH|ENDSWITH)\s", re.I)


class WantedFilter(NamedTuple):
    """``text`` is canonical; empty when all messages are wanted."""

    text: str
    kind: FilterKind


EVERYTHING = WantedFilter("", FilterKind.TAG)


def filter_of(pointer: str, form: FilterForm | None, tag: str | None = None) -> WantedFilter:
    """What ``filter`` and ``tag`` of a body ask for together; ``pointer`` is that of ``filter``.

    Raises Fault ILLEGAL_FILTER, with the place in the text and the reason.
    """
    base = pointer.removesuffix("filter")
    tags = None if tag is None else _compiled(f"{base}tag", tag, FilterKind.TAG)
    if form is None:
        return tags or EVERYTHING
    if isinstance(form, SqlFilter):
        return both(f"{pointer}/sql", tags, _compiled(f"{pointer}/sql", form.sql, FilterKind.SQL92))
    return both(pointer, tags, _compiled(pointer, form, FilterKind.TAG))


def filter_of_query(tag: str | None, form: str | None, sql: str | None) -> WantedFilter:
    """The same of the parameters ``tag``, ``filter`` and ``sql`` of a query string, where
    ``filter`` may be the object ``{"sql": …}`` as JSON. Raises Fault ILLEGAL_FILTER.
    """
    tags = None if tag is None else _compiled("?tag", tag, FilterKind.TAG)
    condition = None if sql is None else _compiled("?sql", sql, FilterKind.SQL92)
    if form is None:
        return both("?sql", tags, condition) if condition else tags or EVERYTHING
    if condition is not None:
        raise Fault("?sql", "ILLEGAL_FILTER", "give either filter or sql, not both")
    if form.lstrip().startswith("{"):
        try:
            condition = _compiled("?filter", _decode_sql(form).sql, FilterKind.SQL92)
        except msgspec.DecodeError:
            detail = 'a filter must be tags, such as a || b, or {"sql": "a condition"}'
            raise Fault("?filter", "ILLEGAL_FILTER", detail) from None
        return both("?filter", tags, condition)
    if _reads_as_sql(form):
        detail = "this looks like SQL92, but a plain filter is a list of tags: write sql=, or tag="
        raise Fault("?filter", "ILLEGAL_FILTER", detail)
    return both("?filter", tags, _compiled("?filter", form, FilterKind.TAG))


def tags_in(wanted: WantedFilter) -> list[str]:
    """The tags of a filter by tags; none for that of all messages."""
    return wanted.text.split(" || ") if wanted.text else []


def both(pointer: str, tags: WantedFilter | None, wanted: WantedFilter) -> WantedFilter:
    """What passes the tags and the filter. Raises Fault when both are tags."""
    if not tags or not tags.text:
        return wanted
    if wanted.kind is FilterKind.TAG:
        if not wanted.text:
            return tags
        raise Fault(pointer, "ILLEGAL_FILTER", "the tags are given twice, in filter and in tag")
    quoted = ", ".join("'" + tag.replace("'", "''") + "'" for tag in tags_in(tags))
    return _compiled(pointer, f"TAGS IN ({quoted}) AND ({wanted.text})", FilterKind.SQL92)


def _compiled(pointer: str, text: str, kind: FilterKind) -> WantedFilter:
    if not text.strip():
        raise Fault(
            pointer, "ILLEGAL_FILTER", "the filter is empty; leave it out to match all messages"
        )
    try:
        wanted = known_filter(text, kind)
    except FilterInvalid as exc:
        raise Fault(pointer, "ILLEGAL_FILTER", str(exc)) from exc
    return EVERYTHING if wanted.is_all else WantedFilter(wanted.text, wanted.kind)


def _reads_as_sql(text: str) -> bool:
    """Whether somebody meant a condition: this parameter took nothing else once, and to read it as
    tags would find nothing without a word.
    """
    return any(mark in text for mark in "=<>'(") or _WORDS.search(text) is not None
