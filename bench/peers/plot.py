"""Figures as SVG: bars of rates, lines of latencies on a scale of powers of ten.

Ours are blue, peers grey, limits of the machine outlined; colours follow the reader's dark or light
setting. Each section has a scale of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from bench.peers.evidence import Section
from bench.peers.limits import LIMIT
from bench.peers.turns import Figure
from bench.report import number

WIDTH: Final = 880
LEFT: Final = 315
ROOM: Final = 420
LINE: Final = 26
BAR: Final = 14
HEAD: Final = 40
DECADES_MIN: Final = -1  # 0.1 ms
STYLE: Final = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2937 }
.head { font-weight: 600; font-size: 15px } .dim { fill: #6b7280; font-size: 12px }
.ours { fill: #2563eb } .peer { fill: #9ca3af } .limit { fill: none; stroke: #6b7280 }
.grid { stroke: #e5e7eb } .reach { stroke-width: 2 } .most { stroke-width: 10 }
line.ours { stroke: #2563eb } line.peer { stroke: #9ca3af }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .dim { fill: #9ca3af } .ours { fill: #60a5fa } .peer { fill: #6b7280 }
  .grid { stroke: #374151 } line.ours { stroke: #60a5fa } line.peer { stroke: #6b7280 }
}
</style>"""


def draw(sections: Sequence[Section]) -> str:
    """One picture of all these, one below the other."""
    parts: list[str] = []
    top = 0
    for section in sections:
        has_percentiles = section.unit == "ms, p99"
        parts += _lines(section, top) if has_percentiles else _bars(section, top)
        top += HEAD + len(section.figures) * LINE + (44 if has_percentiles else 14)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
    return "\n".join([head, STYLE, *parts, "</svg>", ""])


def _bars(section: Section, top: int) -> Iterator[str]:
    yield _head(section, f"{section.title}, {section.unit}", top)
    most = max((figure.median for figure in section.figures), default=1.0) or 1.0
    for y, figure in _rows(section, top):
        width = max(ROOM * figure.median / most, 0.0)
        yield _label(figure, y)
        yield (
            f'<rect class="{_kind(figure)}" x="{LEFT}" y="{y}" width="{width:.1f}" '
            f'height="{BAR}" rx="2"/>'
        )
        yield f'<text x="{LEFT + width + 8:.1f}" y="{y + BAR - 2}">{number(figure.median)}</text>'


def _lines(section: Section, top: int) -> Iterator[str]:
    """Thick from the median to the 99th percentile, thin to the largest."""
    yield _head(section, f"{section.title}, ms", top)
    largest = max((figure.extra["max_ms"] for figure in section.figures), default=1.0)
    decades = max(math.ceil(math.log10(largest)), 1)

    def x_of(ms: float) -> float:
        part = (math.log10(max(ms, 0.1)) - DECADES_MIN) / (decades - DECADES_MIN)
        return round(LEFT + ROOM * part, 1)

    bottom = top + HEAD + len(section.figures) * LINE
    for decade in range(DECADES_MIN, decades + 1):
        x = x_of(10.0**decade)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{top + HEAD - 6}" y2="{bottom}"/>'
        yield (
            f'<text class="dim" x="{x}" y="{bottom + 14}" text-anchor="middle">'
            f"{10.0**decade:g} ms</text>"
        )
    for y, figure in _rows(section, top):
        middle = y + BAR / 2
        yield _label(figure, y)
        for kind, end in (("reach", "max_ms"), ("most", "p99_ms")):
            yield (
                f'<line class="{kind} {_kind(figure)}" x1="{x_of(figure.extra["p50_ms"])}" '
                f'x2="{x_of(figure.extra[end])}" y1="{middle}" y2="{middle}"/>'
            )
        x = x_of(figure.extra["max_ms"]) + 8
        yield f'<text x="{x}" y="{y + BAR - 2}">{number(figure.median)}</text>'
    yield (
        f'<text class="dim" x="8" y="{bottom + 32}">thick: median to 99th percentile, whose '
        "number it is; thin: to the largest</text>"
    )


def _head(section: Section, text: str, top: int) -> str:
    less = "; less is better" if section.is_less_better else ""
    return f'<text class="head" x="8" y="{top + 24}">{escape(text + less)}</text>'


def _label(figure: Figure, y: int) -> str:
    text = escape(figure.way.label)
    return f'<text x="{LEFT - 10}" y="{y + BAR - 2}" text-anchor="end">{text}</text>'


def _rows(section: Section, top: int) -> Iterator[tuple[int, Figure]]:
    return ((top + HEAD + index * LINE, each) for index, each in enumerate(section.figures))


def _kind(figure: Figure) -> str:
    if figure.way.peer == LIMIT:
        return "limit"
    return "ours" if figure.way.is_ours else "peer"
