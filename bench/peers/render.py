"""The page and its pictures from the evidence that is kept: ``python -m bench.peers.render``.

evidence/peers.json ─▶ [render] ─▶ docs/peers.md between its marks, docs/peers-*.svg

A test compares both with what this makes of the committed evidence.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer

from bench.peers.evidence import EVIDENCE, ROOT, Evidence, Section, read_evidence
from bench.peers.goals import find_goals
from bench.peers.limits import LIMIT
from bench.peers.plot import draw
from bench.peers.turns import Figure
from bench.report import number

DOCS: Final = ROOT / "docs"
PAGE: Final = DOCS / "peers.md"
MARKS: Final = ("<!-- figures:begin -->", "<!-- figures:end -->")
PICTURES: Final = {
    "rest": ("rest-one", "rest-hundred", "receive-one", "receive-many"),
    "sockets": ("socket-one", "socket-hundred"),
    "push": ("push-one", "push-eight", "backlog"),
    "bodies": ("rest-small", "rest-large", "push-small", "push-large"),
    "latency": ("latency-1000", "latency-5000", "latency-rest"),
    "many": ("topics-made", "topics-socket", "topics-rest", "idle"),
    "limits": ("memory", "disk"),
}
PERCENTILES: Final = ("p50_ms", "p99_ms", "p99_9_ms", "max_ms")
GENERATOR_FULL: Final = 0.9
NOISE_CORES: Final = 0.15
LIMIT_SECTIONS: Final = ("memory", "disk")


def render(evidence: Evidence) -> list[Path]:
    """Write the page's figures and all pictures; which files."""
    written = []
    for name, content in pictures(evidence).items():
        (DOCS / name).write_text(content)
        written.append(DOCS / name)
    PAGE.write_text(page(PAGE.read_text(), evidence))
    return [*written, PAGE]


def pictures(evidence: Evidence) -> dict[str, str]:
    """SVG by file name, of those that have a figure."""
    found = {}
    for name, keys in PICTURES.items():
        sections = [each for each in evidence.sections if each.key in keys and each.figures]
        if sections:
            found[f"peers-{name}.svg"] = draw(sections)
    return found


def page(before: str, evidence: Evidence) -> str:
    """The page with new figures between its marks."""
    return page_with(before, MARKS, table(evidence))


def page_with(before: str, marks: tuple[str, str], text: str) -> str:
    """The page with this between the marks."""
    head, _, rest = before.partition(marks[0])
    _, _, foot = rest.partition(marks[1])
    return f"{head}{marks[0]}\n\n{text}\n\n{marks[1]}{foot}"


def table(evidence: Evidence) -> str:
    """All figures as Markdown."""
    return "\n".join(_table(evidence))


def reference(section: Section) -> Figure | None:
    """Ours, durable: what the others are compared with."""
    return next((f for f in section.figures if f.way.is_ours and f.way.is_synced), None)


def _table(evidence: Evidence) -> Iterator[str]:
    machine, timing = evidence.machine, evidence.timing
    yield (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, Linux {machine.kernel}, "
        f"Python {machine.python}, {machine.disk.partition(' on ')[0]}; {evidence.taken_at[:10]}, "
        f"commit {evidence.commit}. {timing.repeats} runs of {timing.seconds:g} s each, "
        f"alternating; medians are shown. All in one run of {evidence.seconds / 60:.0f} minutes."
    )
    if _noise_cores(evidence) >= NOISE_CORES:
        yield (
            f"\n**The machine did other work during this run** ({_noise_cores(evidence):.1f} of "
            f"{machine.cores} cores): compare CPU per message rather than rates."
        )
    yield "\n| peer | version | setup |\n|---|---|---|"
    yield from (f"| {peer.name} | {peer.version} | {peer.setup} |" for peer in evidence.peers)
    for name, reason in evidence.skipped.items():
        yield f"\nSkipped: **{name}**: {reason}."
    yield "\n### What a confirmation means\n\n| way | a message is confirmed | on disk by then |"
    yield "|---|---|---|"
    ways = {f.way.label: f.way for section in evidence.sections for f in section.figures}
    for way in ways.values():
        if way.peer != LIMIT:
            yield f"| {way.label} | {way.durability} | {'yes' if way.is_synced else '**no**'} |"
    yield "\n### Targets\n"
    yield "| ours, durable, compared with the best of | ratio | target | | by CPU per message |"
    yield "|---|---|---|---|---|"
    for goal in find_goals(evidence):
        verdict = "met" if goal.is_met else "**not met**"
        cells = (f"{goal.ratio:.2f}", f"≥ {goal.wanted:g}", verdict, f"{goal.cpu_ratio:.2f}")
        yield f"| {goal.name} | {' | '.join(cells)} |"
    yield "\n### Where a peer is ahead\n"
    yield from _ahead(evidence)
    yield "\n### Pictures\n"
    yield from (f"![{Path(name).stem}]({name})" for name in pictures(evidence))
    for section in evidence.sections:
        yield f"\n### {section.title}\n\n{section.how[0].upper()}{section.how[1:]}.\n"
        yield from _rows(section)
        for label, reason in section.failed.items():
            yield f"\nNo result for **{label}**: {' '.join(reason.split())}."


def _noise_cores(evidence: Evidence) -> float:
    """What others used in the run in the middle of all."""
    found = [figure.usage.other_cores for each in evidence.sections for figure in each.figures]
    return statistics.median(found) if found else 0.0


def _ahead(evidence: Evidence) -> Iterator[str]:
    is_any = False
    for section in evidence.sections:
        own = reference(section)
        if own is None or section.key in LIMIT_SECTIONS:
            continue
        others = [
            f"{f.way.label} {_times(f, own)}{_like(section, f)}"
            for f in section.figures
            if f.way.peer not in (LIMIT, own.way.peer) and _is_ahead(section, f, own)
        ]
        if others:
            is_any = True
            yield f"* {section.title}: {'; '.join(others)}"
    if not is_any:
        yield "Nowhere in this run."


def _is_ahead(section: Section, figure: Figure, own: Figure) -> bool:
    if section.is_less_better:
        return figure.median < own.median
    return figure.median > own.median


def _like(section: Section, figure: Figure) -> str:
    """Beside a peer that confirms before the disk has it: how it stands to ours that does so."""
    own = next((f for f in section.figures if f.way.is_ours and not f.way.is_synced), None)
    if figure.way.is_synced or own is None:
        return ""
    return f" (not synced; compared with ours, async, {_times(figure, own)})"


def _times(figure: Figure, own: Figure) -> str:
    """The figure as a multiple of ours."""
    return f"{figure.median / own.median:.2f}×" if own.median > 0 else ""


def _rows(section: Section) -> Iterator[str]:
    own = reference(section)
    has_percentiles = any("p99_9_ms" in figure.extra for figure in section.figures)
    if has_percentiles:
        yield (
            "| way | p50 | p99 | p99.9 | maximum, ms | p99, ours = 1 | sent late, p50 | "
            "cores | anonymous MiB |"
        )
        yield "|---|---|---|---|---|---|---|---|---|"
    else:
        yield (
            f"| way | {section.unit} | runs | ours = 1 | cores | µs of CPU each | "
            "generator | anonymous + files, MiB | |"
        )
        yield "|---|---|---|---|---|---|---|---|---|"
    for figure in section.figures:
        ratio = _times(figure, own) if own else ""
        cells = [f"**{figure.way.label}**" if figure.way.is_ours else figure.way.label]
        usage = figure.usage
        if has_percentiles:
            cells += [number(figure.extra[name]) for name in PERCENTILES]
            cells += [ratio, number(figure.extra["sent_late_p50_ms"])]
            cells += [f"{usage.server_cores:.2f}", number(usage.anonymous_mib)]
        else:
            files = max(usage.resident_mib - usage.anonymous_mib, 0.0)
            cells += [
                number(figure.median),
                " ".join(number(run) for run in figure.runs),
                ratio,
                f"{usage.server_cores:.2f}",
                _cpu_us_each(section, figure),
                f"{usage.generator_cores:.2f}",
                f"{usage.anonymous_mib:.0f} + {files:.0f}",
                _notes(section, figure),
            ]
        yield f"| {' | '.join(cells)} |"


def _cpu_us_each(section: Section, figure: Figure) -> str:
    if section.unit != "msg/s" or not figure.median:
        return ""
    return number(figure.usage.server_cores * 1_000_000 / figure.median)


def _notes(section: Section, figure: Figure) -> str:
    notes = [
        f"{name} {number(value)}"
        for name, value in figure.extra.items()
        if name in ("p50_ms", "p99_ms", "cpu_percent_of_all", "again")
    ]
    if section.key not in LIMIT_SECTIONS:
        if figure.usage.generator_cores >= GENERATOR_FULL:
            notes.append("generator full")
        if figure.usage.other_cores >= NOISE_CORES:
            notes.append(f"others {figure.usage.other_cores:.2f} cores")
    return ", ".join(notes)


def main() -> None:
    """Render what is kept."""
    for path in render(read_evidence(EVIDENCE)):
        typer.echo(path.relative_to(ROOT))


if __name__ == "__main__":
    typer.run(main)
