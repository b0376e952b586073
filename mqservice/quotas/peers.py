"""Reports of processes as text, and which processes are still alive.

report ──▶ write_report ──▶ text in Valkey ──▶ [Peers.alive] ──▶ reports of those that move
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

DEPARTED_MS: Final = 5_000  # a process reports at least every second
_FIELDS: Final = 7


class Report(NamedTuple):
    """What one process is asked for on behalf of a tenant, a second, and what it holds."""

    demand: tuple[float, float, float, float]
    socket_count: int
    poll_count: int


def write_report(number: int, report: Report) -> str:
    demand = " ".join(f"{value:.1f}" for value in report.demand)
    return f"{number} {demand} {report.socket_count} {report.poll_count}"


def read_report(text: str) -> Report | None:
    """None for what no process of this version has written."""
    parts = text.split(" ")
    if len(parts) != _FIELDS:
        return None
    try:
        first, second, third, fourth = (max(0.0, float(part)) for part in parts[1:5])
        return Report((first, second, third, fourth), int(parts[5]), int(parts[6]))
    except ValueError:
        return None


class Peers:
    """Who was heard of lately. One of its own for each list of processes."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._reports: dict[str, tuple[str, int]] = {}  # text and when it was new

    def alive(self, texts: Mapping[str, str], now_ms: int) -> dict[str, str]:
        """The texts of others that have changed within ``DEPARTED_MS``."""
        heard = {}
        for process, text in texts.items():
            if process == self._own:
                continue
            known = self._reports.get(process)
            is_new = known is None or known[0] != text
            heard[process] = (text, now_ms) if known is None or is_new else known
        self._reports = heard
        return {
            process: text
            for process, (text, at_ms) in heard.items()
            if now_ms - at_ms < DEPARTED_MS
        }

    def departed(self, now_ms: int) -> list[str]:
        """Those of the last ``alive`` that have not moved for several times as long."""
        return [
            name for name, (_, at_ms) in self._reports.items() if now_ms - at_ms > 4 * DEPARTED_MS
        ]
