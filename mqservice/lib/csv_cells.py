"""CSV: files for programs, and answers that people open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from django.http import HttpResponse

# What one spreadsheet or another takes for the beginning of a formula, also behind blanks and line
# ends; OWASP, "CSV Injection".
_FORMULA_BEGINNINGS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_CELL_ENDS: Final = ("\t", "\r", "\n")


Row = Iterable[Any]  # Any: texts, numbers, and what JSON has
CSV_TYPE: Final = "text/csv"


def csv_cell(value: Any) -> Any:
    """A text that could be taken for a formula gets an apostrophe, which shows it as text; a list
    or an object is JSON.
    """
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    is_risky = value.lstrip().startswith(_FORMULA_BEGINNINGS) or value.startswith(_CELL_ENDS)
    return f"'{value}" if is_risky else value


def csv_response(columns: Row, rows: Iterable[Row], *, file_name: str = "") -> HttpResponse:
    """A header and a line a row, as ``csv_cell`` has them."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(map(csv_cell, row) for row in rows)
    response = HttpResponse(text.getvalue(), content_type=f"{CSV_TYPE}; charset=utf-8")
    if file_name:
        response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response


def write_csv(path: Path, columns: Row, rows: Iterable[Row]) -> int:
    """A file for a program, which takes every text as it is; how many rows it has."""
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            writer.writerow(row)
            count += 1
    return count
