"""The course of a run of a cluster's faults: kept as JSON, and drawn as SVG for the documentation.

    Recording ──▶ evidence/cluster.json ──▶ [draw] ──▶ docs/cluster-faults.svg

The drawing follows the reader's dark or light setting. Above: messages a second; below: latency of
acknowledged requests, on a logarithmic scale; a band for each fault, until all was as before.
"""

from __future__ import annotations

import datetime
import math
import tempfile
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from bench.machine import Machine, find_commit, find_machine
from tests.acceptance.cluster_faults.recording import Mark, Recording, Second

_ROOT: Final = Path(__file__).resolve().parents[2]
RECORDED_RUN: Final = _ROOT / "evidence" / "cluster.json"
DRAWING: Final = _ROOT / "docs" / "cluster-faults.svg"

_WIDTH: Final = 640
_LEFT: Final = 52
_RIGHT: Final = 626
_KEYS: Final = (66, 322)  # of the panels
_KEYS_X: Final = (190, 310)
_ROWS: Final = (92, 124)  # of labels, in turn: neighbours are close
_RATE: Final = (156, 284)  # top and bottom
_LATENCY: Final = (336, 456)
_HEIGHT: Final = 498
_DECADES_MS: Final = (10, 100, 1_000, 10_000)
_TICK_S: Final = 30
_STYLE: Final = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2937 }
.head { font-weight: 600; font-size: 14px } .dim { fill: #5b6472 } .label { font-weight: 600 }
.band { fill: #f59e0b; fill-opacity: .16 } .tick { stroke: #b45309; stroke-width: 1 }
.grid { stroke: #e2e8f0 } .rate { fill: #2563eb; fill-opacity: .28; stroke: #2563eb }
.delivered { fill: none; stroke: #0f9f6e; stroke-width: 1.2 }
.p50 { fill: none; stroke: #2563eb; stroke-width: 1.6 }
.p99 { fill: none; stroke: #c2410c; stroke-width: 1.6 } .key { stroke-width: 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .dim { fill: #a3adbb } .band { fill: #fbbf24; fill-opacity: .15 }
  .tick { stroke: #fbbf24 } .grid { stroke: #334155 }
  .rate { fill: #60a5fa; fill-opacity: .3; stroke: #60a5fa } .delivered { stroke: #34d399 }
  .p50 { stroke: #60a5fa } .p99 { stroke: #fb923c }
}
</style>"""


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    date: str
    commit: str
    machine: Machine
    recording: Recording


def write_recorded_run(path: Path, recording: Recording) -> None:
    """With what machine and commit it was."""
    run = RecordedRun(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        commit=find_commit(),
        machine=find_machine(Path(tempfile.gettempdir())),
        recording=recording,
    )
    content = msgspec.json.format(msgspec.json.encode(run), indent=1).decode()
    path.write_text(content + "\n")


def read_recorded_run(path: Path) -> RecordedRun:
    return msgspec.json.decode(path.read_bytes(), type=RecordedRun)


def draw(recording: Recording) -> str:
    """The same recording gives the same drawing."""
    seconds = recording.seconds
    end_s = len(seconds)

    def x(at_s: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * at_s / end_s, 1)

    most = max(max(each.acknowledged, each.delivered) for each in seconds)
    rate_max = math.ceil(most / 100) * 100
    parts = [
        "<title>Faults of a cluster under load</title>",
        f"<desc>{escape(_description(recording.marks))}</desc>",
        _STYLE,
        '<text class="head" x="8" y="22">Faults of a cluster under load</text>',
        '<text class="dim" x="8" y="39">Below each fault: the longest time without an '
        "acknowledgement. A band ends when all is as before.</text>",
        *_bands(recording.marks, x),
        *_key(
            _KEYS[0],
            "Messages per second",
            ("rate", "acknowledged"),
            ("delivered", "delivered"),
        ),
        *_rate_grid(rate_max),
        _rate_area(seconds, x, rate_max),
        _line(
            "delivered",
            [(x(at + 0.5), _rate_y(each.delivered, rate_max)) for at, each in enumerate(seconds)],
        ),
        *_key(_KEYS[1], "Latency of requests", ("p50", "median"), ("p99", "99th percentile")),
        *_latency_grid(),
        *_latency_lines("p99", [each.p99_ms for each in seconds], x),
        *_latency_lines("p50", [each.p50_ms for each in seconds], x),
        *_times(end_s, x),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    return "\n".join([head, *parts, "</svg>", ""])


def _description(marks: Iterable[Mark]) -> str:
    return "; ".join(f"{each.name}: {each.gap_ms / 1_000:.1f} s, {each.text}" for each in marks)


def _bands(marks: list[Mark], x: Callable[[float], float]) -> list[str]:
    parts = []
    for number, mark in enumerate(marks):
        start, end = x(mark.start_s), x(mark.end_s)
        middle, row = round((start + end) / 2, 1), _ROWS[number % 2]
        width = round(end - start, 1)
        parts += [
            f'<rect class="band" x="{start}" y="{_RATE[0]}" width="{width}" '
            f'height="{_LATENCY[1] - _RATE[0]}"/>',
            f'<line class="tick" x1="{middle}" x2="{middle}" y1="{row + 20}" y2="{_RATE[0]}"/>',
            f'<text class="label" x="{middle}" y="{row}" text-anchor="middle">'
            f"{escape(mark.label)}</text>",
            f'<text class="dim" x="{middle}" y="{row + 15}" text-anchor="middle">'
            f"{mark.gap_ms / 1_000:.1f} s</text>",
        ]
    return parts


def _key(y: int, title: str, *entries: tuple[str, str]) -> list[str]:
    """The heading of a panel, with the meaning of its lines beside it."""
    parts = [f'<text class="head" x="8" y="{y}">{title}</text>']
    for (kind, text), x in zip(entries, _KEYS_X, strict=True):
        parts += [
            f'<line class="{kind} key" x1="{x}" x2="{x + 16}" y1="{y - 4}" y2="{y - 4}"/>',
            f'<text class="dim" x="{x + 22}" y="{y}">{text}</text>',
        ]
    return parts


def _rate_y(rate: float, rate_max: int) -> float:
    top, bottom = _RATE
    return round(bottom - (bottom - top) * rate / rate_max, 1)


def _rate_grid(rate_max: int) -> list[str]:
    return [
        part
        for rate in range(0, rate_max + 1, 100)
        for part in _grid(_rate_y(rate, rate_max), str(rate))
    ]


def _rate_area(seconds: list[Second], x: Callable[[float], float], rate_max: int) -> str:
    """Steps: a second without an acknowledgement is a gap of that width."""
    bottom = _rate_y(0, rate_max)
    path = [f"M{x(0)} {bottom}"]
    for at, each in enumerate(seconds):
        path.append(f"V{_rate_y(each.acknowledged, rate_max)}H{x(at + 1)}")
    return f'<path class="rate" d="{"".join(path)}V{bottom}Z"/>'


def _latency_y(latency_ms: float) -> float:
    top, bottom = _LATENCY
    low, high = math.log10(_DECADES_MS[0]), math.log10(_DECADES_MS[-1])
    share = (math.log10(max(latency_ms, _DECADES_MS[0])) - low) / (high - low)
    return round(bottom - (bottom - top) * min(share, 1.0), 1)


def _latency_grid() -> list[str]:
    return [
        part
        for latency_ms in _DECADES_MS
        for part in _grid(
            _latency_y(latency_ms),
            f"{latency_ms} ms" if latency_ms < 1_000 else f"{latency_ms // 1_000} s",
        )
    ]


def _grid(y: float, text: str) -> list[str]:
    return [
        f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y}" y2="{y}"/>',
        f'<text class="dim" x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>',
    ]


def _latency_lines(
    kind: str, latencies: list[float | None], x: Callable[[float], float]
) -> list[str]:
    """One for each stretch of seconds in which there was an acknowledgement."""
    lines: list[list[tuple[float, float]]] = [[]]
    for at, latency_ms in enumerate(latencies):
        if latency_ms is None:
            lines.append([])
        else:
            lines[-1].append((x(at + 0.5), _latency_y(latency_ms)))
    return [_line(kind, points) for points in lines if points]


def _line(kind: str, points: list[tuple[float, float]]) -> str:
    places = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline class="{kind}" points="{places}"/>'


def _times(end_s: int, x: Callable[[float], float]) -> list[str]:
    y = _LATENCY[1] + 18
    ticks = [
        f'<text class="dim" x="{x(at)}" y="{y}" text-anchor="middle">{at // 60}:{at % 60:02}</text>'
        for at in range(0, end_s + 1, _TICK_S)
    ]
    unit = f'<text class="dim" x="{_RIGHT}" y="{y + 18}" text-anchor="end">minutes:seconds</text>'
    return [*ticks, unit]
