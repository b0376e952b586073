"""Any table of a page as CSV: what the page shows, in its columns and order, on all of its pages.

    {% csv "topics" %} in a table ──▶ link ?…&csv=topics ──▶ view, as for the page ──▶ HTML
        TableReader ──▶ rows ──▶ chunk of the answer      ▲                            │
                    └── rel=next of its section ──────────┴── at most ROWS_MAX rows ◀──┘

So a file has nothing that its reader may not see, and a column is declared once. Times are written
as in ``datetime``, in UTC; numbers without separators; a choice as its chosen value; a dash that
stands for nothing as an empty cell. Columns without a visible title (marks, buttons) are left out.
Text that a spreadsheet would take for a formula is quoted.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Callable
from html.parser import HTMLParser
from typing import Final

from asgiref.sync import sync_to_async
from django.http import Http404, HttpResponse, QueryDict, StreamingHttpResponse

from mqservice.lib.csv_cells import CSV_TYPE, csv_cell

PARAMETER: Final = "csv"
ROWS_MAX: Final = 10_000
PAGES_MAX: Final = 1_000
BYTE_ORDER_MARK: Final = "\ufeff"  # else Excel takes UTF-8 for something else
_NOTHING: Final = ("–", "—")
_NUMBER: Final = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+")
# Left out of a cell: elements that have no text of their own; text for narrow pages or screen
# readers alone; links that are buttons.
_SILENT: Final = ("button", "svg", "script", "style", "template", "caption")
_SILENT_CLASSES: Final = frozenset({"only-narrow", "sr-only", "button"})
_VOID: Final = ("br", "img", "input", "hr", "meta", "link", "wbr")
Row = list[str]


class TableReader(HTMLParser):
    """The table called ``name``: its titles, its rows, and the query of its next page."""

    def __init__(self, name: str) -> None:
        super().__init__(convert_charrefs=True)
        self.titles: Row | None = None
        self.rows: list[Row] = []
        self.next_query = ""
        self._name = name
        self._is_candidate = False  # a table whose caption has not come yet
        self._is_wanted = False
        self._is_behind = False  # in the section of the table, after it
        self._section_depth = 0
        self._row: Row | None = None
        self._cell: list[str] | None = None
        self._is_in_head = False
        self._silent: list[str] = []  # open tags, the first of which is silent

    @property
    def is_found(self) -> bool:
        return self.titles is not None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if self._is_behind:
            self._look_for_next(tag, given)
        elif tag == "table":
            self._is_candidate = True
        elif tag == "caption" and self._is_candidate:
            self._is_candidate = False
            self._is_wanted = given.get("data-csv") == self._name
        if not self._is_wanted:
            return
        if self._silent:
            if tag not in _VOID:
                self._silent.append(tag)
        elif _is_silent(tag, given):
            self._silent.append(tag)
        elif tag == "time" and self._cell is not None and "datetime" in given:
            self._cell.append(given["datetime"])
            self._silent.append(tag)
        elif tag == "thead":
            self._is_in_head = True
        elif tag == "tr":
            self._row = []
        elif tag in ("th", "td"):
            self._cell = []
        elif self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "section" and self._is_behind:
            self._section_depth -= 1
            self._is_behind = self._section_depth >= 0
        if not self._is_wanted:
            return
        if self._silent:
            if self._silent.pop() != tag:
                raise ValueError(f"a table of a page has an open tag before {tag}")
        elif tag == "table":
            self._is_wanted, self._is_behind = False, True
        elif tag == "thead":
            self._is_in_head = False
        elif tag in ("th", "td") and self._cell is not None and self._row is not None:
            self._row.append(_text_of(self._cell))
            self._cell = None
        elif tag == "tr" and self._row is not None:
            self._end_row(self._row)
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._silent:
            self._cell.append(data)

    def _end_row(self, row: Row) -> None:
        if self._is_in_head:
            self.titles = row
            return
        titles = self.titles or []
        row += [""] * (len(titles) - len(row))
        self.rows.append([cell for title, cell in zip(titles, row, strict=False) if title])

    def _look_for_next(self, tag: str, given: dict[str, str]) -> None:
        if tag == "section":
            self._section_depth += 1
        elif tag == "a" and given.get("rel") == "next" and given.get("href", "").startswith("?"):
            self.next_query = self.next_query or given["href"][1:]


def _is_silent(tag: str, given: dict[str, str]) -> bool:
    is_other_choice = tag == "option" and "selected" not in given
    classes = given.get("class", "").split()
    return tag in _SILENT or is_other_choice or not _SILENT_CLASSES.isdisjoint(classes)


def table_response(
    name: str, first: HttpResponse, show: Callable[[QueryDict], HttpResponse]
) -> StreamingHttpResponse:
    """The table of the page ``first`` and of those behind it, which ``show`` makes of their query.

    Raises Http404: the page has no such table.
    """
    found = read_table(name, first)
    if not found.is_found:
        raise Http404(f"the page has no table {name}")
    response = StreamingHttpResponse(
        _chunks(name, found, show), content_type=f"{CSV_TYPE}; charset=utf-8"
    )
    file_name = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    response["Content-Disposition"] = f'attachment; filename="{file_name}.csv"'
    response["Cache-Control"] = "no-store"
    return response


def read_table(name: str, page: HttpResponse) -> TableReader:
    reader = TableReader(name)
    reader.feed(page.content.decode(page.charset))
    return reader


async def _chunks(
    name: str, found: TableReader, show: Callable[[QueryDict], HttpResponse]
) -> AsyncIterator[str]:
    """A chunk for each page."""
    yield BYTE_ORDER_MARK + _lines([[title for title in found.titles or [] if title]])
    left = ROWS_MAX
    for _ in range(PAGES_MAX):
        yield _lines(found.rows[:left])
        has_more = len(found.rows) > left or bool(found.next_query)
        left -= len(found.rows)
        if left <= 0 or not found.next_query:
            break
        page = await sync_to_async(show)(QueryDict(found.next_query))
        if page.status_code != 200:  # the file ends without its end, and the browser says so
            raise RuntimeError(f"a page of the table {name} has failed with {page.status_code}")
        found = await sync_to_async(read_table)(name, page)
    if has_more:
        yield _lines([[f"(stopped after {ROWS_MAX - max(0, left)} rows; there are more)"]])


def _lines(rows: list[Row]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([csv_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _text_of(parts: list[str]) -> str:
    text = " ".join("".join(parts).split())
    if text in _NOTHING:
        return ""
    return text.replace(",", "") if _NUMBER.fullmatch(text) else text
