"""Formats the numbers of reports for people."""

from __future__ import annotations

from collections.abc import Iterable

from mqservice.reports.day import Compared


def count_text(value: float) -> str:
    return f"{value:,.0f}"


def bytes_text(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def duration_text(ms: float) -> str:
    seconds = ms / 1_000
    pairs: Iterable[tuple[str, int]] = (("d", 86_400), ("h", 3_600), ("min", 60))
    for unit, length in pairs:
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    if seconds >= 1 or not ms:
        return f"{seconds:,.0f} s" if seconds >= 10 or not ms else f"{seconds:,.1f} s"
    return f"{ms:,.0f} ms"


def change_text(what: Compared, span: str = "a week") -> str:
    """How it changed in the span; empty where nobody knows."""
    if what.now is None or what.before is None:
        return ""
    if what.before == 0:
        return f"none {span} before" if what.now else f"same as {span} before"
    percent = percent_text(what)
    return f"{percent} in {span}" if percent != "0 %" else f"same as {span} before"


def percent_text(what: Compared) -> str:
    """The change alone; a dash where there is nothing to compare with."""
    if what.now is None or not what.before:
        return "-"
    percent = round(100 * (what.now - what.before) / what.before)
    return f"{percent:+,d} %" if percent else "0 %"
