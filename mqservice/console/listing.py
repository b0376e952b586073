"""Lists of things that have names, sorted by a number and cut into pages; pure functions.

    names ──▶ [by_number] ──▶ in order ──▶ [page_of] ──▶ index of the first, names of one page

A page is named by its neighbours, so that what comes and goes meanwhile shifts nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PAGE_ROWS: Final = 50
NAMES_MAX: Final = 10_000  # that are looked through


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
