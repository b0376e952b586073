"""``python -m bench.plot RESULT.json...``: results as SVG charts and a table in ``docs/``.

results of runs ──▶ newest row of each name ──▶ docs/bench-WORKLOAD.svg, courses of their own
                                          └──▶ the table between the marks of docs/benchmarks.md

Charts are plain SVG that follow the reader's dark or light setting; each bar has its number, and a
mark at the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from bench.measure import Row
from bench.report import Report, number

DOCS: Final = Path(__file__).parent.parent / "docs"
PAGE: Final = DOCS / "benchmarks.md"
COURSES: Final = {"analytics": "bench-analytics-growth.svg"}  # of others there is one
MARKS: Final = ("<!-- figures:begin -->", "<!-- figures:end -->")
WIDTH: Final = 760
BAR_LEFT: Final = 290
BAR_WIDTH: Final = 330
LINE_HEIGHT: Final = 30
BAR_HEIGHT: Final = 16
HEAD_HEIGHT: Final = 44
COURSE_HEIGHT: Final = 260
COURSE_BOTTOM: Final = 210
TICKS: Final = 5
STYLE: Final = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2937 }
.head { font-weight: 600; font-size: 15px } .dim { fill: #6b7280; font-size: 12px }
.bar { fill: #2563eb } .short { fill: #d97706 } .mark { stroke: #111827; stroke-width: 2 }
.grid { stroke: #e5e7eb } .line { fill: none; stroke: #2563eb; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .dim { fill: #9ca3af } .bar { fill: #60a5fa } .short { fill: #fbbf24 }
  .mark { stroke: #f9fafb } .grid { stroke: #374151 } .line { stroke: #60a5fa }
}
</style>"""


def main(
    results: Annotated[list[Path], typer.Argument(help="Files of bench/results; newer ones win.")],
) -> None:
    """Draw the newest figure of each row, and write the table of docs/benchmarks.md."""
    reports = [msgspec.json.decode(path.read_bytes(), type=Report) for path in results]
    reports.sort(key=lambda report: report.taken_at)
    rows = {(row.workload, row.name): row for report in reports for row in report.rows}
    workloads = list(dict.fromkeys(workload for workload, _ in rows))
    written = []
    for workload in workloads:
        of_workload = [row for row in rows.values() if row.workload == workload]
        for unit in dict.fromkeys(row.unit for row in of_workload):
            same = [row for row in of_workload if row.unit == unit]
            if unit in ("msg/s", "records/s") and len(same) > 1:  # a single bar compares nothing
                written.append(_write(f"bench-{workload}.svg", bars(workload, same)))
    for row in rows.values():
        if row.course:
            name = COURSES.get(row.workload, "bench-memory.svg")
            written.append(_write(name, course(row)))
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    table = "\n".join(_table(reports, list(rows.values()), written))
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{after}")


def _write(name: str, svg: str) -> str:
    (DOCS / name).write_text(svg)
    return name


def bars(workload: str, rows: list[Row]) -> str:
    """One bar for each row, on one scale from 0."""
    top = max(max(row.median, row.target or 0) for row in rows)
    parts = [f'<text class="head" x="8" y="24">{escape(workload)}, messages per second</text>']
    for index, row in enumerate(rows):
        y = HEAD_HEIGHT + index * LINE_HEIGHT
        middle = y + BAR_HEIGHT - 3
        width = BAR_WIDTH * row.median / top
        kind = "short" if row.is_met is False else "bar"
        parts += [
            f'<text x="{BAR_LEFT - 10}" y="{middle}" text-anchor="end">{escape(row.name)}</text>',
            f'<rect class="{kind}" x="{BAR_LEFT}" y="{y}" width="{width:.1f}" '
            f'height="{BAR_HEIGHT}" rx="2"/>',
        ]
        end = width
        if row.target is not None:
            at = BAR_LEFT + BAR_WIDTH * row.target / top
            end = max(width, at - BAR_LEFT)
            parts.append(
                f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 3}" '
                f'y2="{y + BAR_HEIGHT + 3}"/>'
            )
        parts.append(f'<text x="{BAR_LEFT + end + 8:.1f}" y="{middle}">{number(row.median)}</text>')
    height = HEAD_HEIGHT + len(rows) * LINE_HEIGHT + 24
    parts.append(f'<text class="dim" x="8" y="{height - 8}">| marks the target</text>')
    return _svg(height, parts)


def course(row: Row) -> str:
    """How one figure went with another, as a line from 0."""
    x_name, y_name = row.course_of
    x_max = max(x for x, _ in row.course)
    y_max = 1.25 * max(y for _, y in row.course)
    left, width = 60, WIDTH - 100

    def place(x: float, y: float) -> tuple[float, float]:
        room = COURSE_BOTTOM - HEAD_HEIGHT
        return round(left + width * x / x_max, 1), round(COURSE_BOTTOM - room * y / y_max, 1)

    parts = [f'<text class="head" x="8" y="24">{escape(y_name)}</text>']
    for tick in range(TICKS + 1):
        value = y_max * tick / TICKS
        _, y = place(0, value)
        parts += [
            f'<line class="grid" x1="{left}" x2="{left + width}" y1="{y}" y2="{y}"/>',
            f'<text class="dim" x="{left - 8}" y="{y + 4}" text-anchor="end">{value:.0f}</text>',
        ]
    for tick in range(TICKS):
        value = x_max * (tick + 1) / TICKS
        x, _ = place(value, 0)
        parts.append(
            f'<text class="dim" x="{x}" y="{COURSE_BOTTOM + 20}" text-anchor="middle">'
            f"{number(value)}</text>"
        )
    points = " ".join(f"{x},{y}" for x, y in (place(*point) for point in row.course))
    parts += [
        f'<polyline class="line" points="{points}"/>',
        f'<text class="dim" x="{left}" y="{COURSE_HEIGHT - 8}">{escape(x_name)}</text>',
    ]
    return _svg(COURSE_HEIGHT, parts)


def _svg(height: int, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join([head, STYLE, *parts, "</svg>", ""])


def _table(reports: list[Report], rows: list[Row], images: list[str]) -> Iterator[str]:
    newest = reports[-1]
    machine = newest.machine
    yield (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, Linux {machine.kernel}, "
        f"Python {machine.python}, {machine.disk.partition(' on ')[0]}; {newest.taken_at[:10]}. "
        f"Runs of {' and '.join(sorted({f'{r.plan.duration_ms / 1000:g} s' for r in reports}))}."
    )
    yield ""
    yield from (f"![{Path(name).stem}]({name})" for name in dict.fromkeys(images))
    yield ""
    yield "| workload | row | median | target |"
    yield "|---|---|---|---|"
    for row in rows:
        sign = "≤" if row.is_less_better else "≥"
        wanted = "" if row.target is None else f"{sign} {number(row.target)}"
        yield f"| {row.workload} | {row.name} | {number(row.median)} {row.unit} | {wanted} |"


if __name__ == "__main__":
    typer.run(main)
