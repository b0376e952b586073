"""Charts of a report page: SVG without text, which HTML puts beside it, to fit a phone.

    values ──▶ [strip] one cell an hour, by levels of lag
           ──▶ [columns] one bar a step, and an outline of what it was the week before

A drawing stretches to its place; colours are classes of the page's style sheet. Each part has a
title, which browsers show and screen readers read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

LEVELS: Final = (1, 100, 1_000, 10_000, 100_000)  # lag from which on the next darker colour counts
UNKNOWN: Final = -1
_CELL: Final = 20
_HEIGHT: Final = 100
_GAP: Final = 2
_STUB: Final = 0.06  # of the height: seen, and no bar


def strip(cells: Sequence[tuple[int | None, str]], *, label: str) -> SafeString:
    """Lag of each step with its title; None: nothing was measured, UNKNOWN: nobody knew.

    ``label``: what the whole drawing says, for those who do not see it.
    """
    rects = format_html_join(
        "",
        '<rect x="{}" width="{}" height="{}" class="{}"><title>{}</title></rect>',
        (
            (index * _CELL, _CELL - _GAP, _CELL, _class_of(lag), title)
            for index, (lag, title) in enumerate(cells)
        ),
    )
    return format_html(
        '<svg class="strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>',
        max(1, len(cells)) * _CELL - _GAP,
        _CELL,
        label,
        rects,
    )


def columns(
    values: Sequence[float | None],
    before: Sequence[float | None],
    titles: Sequence[str],
    *,
    label: str,
) -> SafeString:
    """A bar for each value, from a common zero, a stub of another kind for one that is unknown, and
    a step line of ``before`` where it is known. ``label`` as in ``strip``.
    """
    top = max([each for each in (*values, *before) if each is not None], default=1) or 1
    shares = [_STUB if value is None else value / top for value in values]
    bars = format_html_join(
        "",
        '<rect x="{}" y="{}" width="{}" height="{}" class="{}"><title>{}</title></rect>',
        (
            (
                index * _CELL,
                _y(share, 1),
                _CELL - _GAP,
                _number(share * _HEIGHT),
                "unknown" if value is None else "bar",
                title,
            )
            for index, (value, share, title) in enumerate(zip(values, shares, titles, strict=True))
        ),
    )
    line = format_html_join(
        "",
        '<path d="M{} {}H{}" class="before"/>',
        (
            (index * _CELL, _y(value, top), index * _CELL + _CELL - _GAP)
            for index, value in enumerate(before)
            if value is not None
        ),
    )
    return format_html(
        '<svg class="columns" viewBox="0 -1 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}{}</svg>',
        max(1, len(values)) * _CELL - _GAP,
        _HEIGHT + 1,
        label,
        bars,
        line,
    )


def bar(share: float) -> SafeString:
    """One bar across, of the width of its place times ``share``."""
    return format_html(
        '<svg class="across" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="{}" height="10" class="bar"/></svg>',
        _number(100 * share),
    )


def _class_of(lag: int | None) -> str:
    if lag is None:
        return "none"
    return "unknown" if lag == UNKNOWN else f"l{sum(lag >= level for level in LEVELS)}"


def _y(value: float, top: float) -> str:
    return _number(_HEIGHT - value / top * _HEIGHT)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
