"""Lists of named things, sorted by a number and split into pages; pure functions.

    names ──▶ [by_number] ──▶ in order ──▶ [page_of] ──▶ index of the first, names of one page

A page is named by its neighbours, so that what comes and goes meanwhile shifts nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from mqservice.lib.names import NAME_CHARS_MAX

PAGE_ROWS: Final = 50
NAMES_MAX: Final = 10_000  # that are looked through


F = TypeVar("F")
OrderT = TypeVar("OrderT", bound=enum.StrEnum)


class Named(Protocol):
    """A row that stands for a thing with a name."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One page of what fits a question.

    ``found_count``: rows of all pages, ``first``: place of the first row of this one, from 1.
    """

    rows: Sequence[object]
    found_count: int
    first: int

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def has_next(self) -> bool:
        return self.last < self.found_count

    @property
    def has_previous(self) -> bool:
        return self.first > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedListing(Listing):
    """A page whose neighbours are named by its first and its last row."""

    rows: Sequence[Named]

    @property
    def next_after(self) -> str:
        """Name behind which the next page begins; empty where there is none."""
        return self.rows[-1].name if self.has_next and self.rows else ""

    @property
    def previous_before(self) -> str:
        return self.rows[0].name if self.has_previous and self.rows else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery(Generic[OrderT]):
    """What to list. ``after`` and ``before`` are names: the page begins behind the one, or ends
    before the other.
    """

    text: str
    kind: str
    order: OrderT
    after: str
    before: str


def list_query(given: Mapping[str, str], kind: str, orders: type[OrderT]) -> ListQuery[OrderT]:
    """``?q=&sort=&after=&before=`` and the parameter ``kind``; the first order is the usual one."""
    order = given.get("sort", "")
    return ListQuery(
        text=given.get("q", "").strip()[:NAME_CHARS_MAX],
        kind=given.get(kind, ""),
        order=orders(order) if order in set(orders) else next(iter(orders)),
        after=given.get("after", ""),
        before=given.get("before", ""),
    )


def in_order(
    names: list[str], figures: Mapping[str, F], number_of: Callable[[F], float | None] | None
) -> list[str]:
    """``by_number`` of what has figures; as they are, by name, without a number."""
    if number_of is None:
        return names
    known = [name for name in names if name in figures]
    return by_number(known, lambda name: number_of(figures[name]))


def by_number(names: list[str], number_of: Callable[[str], float | None]) -> list[str]:
    """From high to low, what is unknown last; equal ones by name."""

    def place(name: str) -> tuple[float, str]:
        number = number_of(name)
        return (1.0 if number is None else -number), name

    return sorted(names, key=place)


def page_of(names: list[str], *, after: str, before: str) -> tuple[int, list[str]]:
    """Index of the first of the page, and the page. A name that is gone begins anew."""
    first = 0
    if after in names:
        first = names.index(after) + 1
    elif before in names:
        first = max(0, names.index(before) - PAGE_ROWS)
    return first, names[first : first + PAGE_ROWS]
