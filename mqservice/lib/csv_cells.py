"""Cells of a CSV that people open in a spreadsheet."""

from __future__ import annotations

from typing import Final

# What one spreadsheet or another takes for the beginning of a formula, also behind blanks and line
# ends; OWASP, "CSV Injection".
_FORMULA_BEGINNINGS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_CELL_ENDS: Final = ("\t", "\r", "\n")


def csv_cell(value: str | int | None) -> str | int | None:
    """A text that could be taken for a formula gets an apostrophe, which shows it as text."""
    if not isinstance(value, str):
        return value
    is_risky = value.lstrip().startswith(_FORMULA_BEGINNINGS) or value.startswith(_CELL_ENDS)
    return f"'{value}" if is_risky else value
