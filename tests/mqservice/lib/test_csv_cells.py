"""No spreadsheet runs what a cell of ours says."""

from __future__ import annotations

import pytest

from mqservice.lib.csv_cells import csv_cell


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", " =", "\u3000＝"])
def test_text_that_begins_like_a_formula_is_shown_as_text(start: str) -> None:
    assert csv_cell(f"{start}HYPERLINK(1)") == f"'{start}HYPERLINK(1)"
    assert csv_cell(f"a{start}") == f"a{start}"


@pytest.mark.parametrize("value", ["plain", "", " ", -5, None])
def test_all_else_is_as_it_was(value: str | int | None) -> None:
    assert csv_cell(value) == value
