"""Tables as plain text: columns two spaces apart, one heading, no lines.

``rich`` would take longer to load than a whole command takes, and its frames are in the way of
``grep``, ``awk`` and of copying an id.
"""

from __future__ import annotations

import unicodedata
from typing import Final

GAP: Final = "  "
_WIDE: Final = frozenset("FW")


class Table:
    """Rows below ``headings``; without any heading a list of names and values."""

    def __init__(self, *headings: str) -> None:
        self._headings = list(headings)
        self._rows: list[list[list[str]]] = []

    def add_row(self, *cells: str) -> None:
        """A cell may have several lines; tabs become spaces."""
        self._rows.append([cell.expandtabs().split("\n") for cell in cells])

    def text(self) -> str:
        """The whole table, each line with its newline and no spaces at its end."""
        heading = [[each.upper()] for each in self._headings]
        rows = [heading, *self._rows] if any(self._headings) else self._rows
        widths = [0] * max((len(row) for row in rows), default=0)
        for row in rows:
            for place, lines in enumerate(row):
                widths[place] = max(widths[place], *map(_width, lines))
        return "".join(_lines(row, widths) for row in rows)


def _lines(row: list[list[str]], widths: list[int]) -> str:
    text = ""
    for number in range(max(map(len, row), default=0)):
        cells = [lines[number] if number < len(lines) else "" for lines in row]
        padded = [
            cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=False)
        ]
        text += GAP.join(padded).rstrip() + "\n"
    return text


def _width(text: str) -> int:
    """Columns on a terminal: East Asian letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in _WIDE)
        for each in text
    )
