"""What the dashboard and the rules of ``deploy/`` ask Prometheus, and which metrics that needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
RULES: Final = PROMETHEUS / "rules.yml"
RULES_TEST: Final = PROMETHEUS / "rules_test.yml"
SCRAPES: Final = PROMETHEUS / "prometheus.yml"
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "mqservice.json"
# Prometheus adds these to whatever it scrapes, and has the metric.
ADDED_LABELS: Final = frozenset({"instance", "job"})
ADDED_METRICS: Final = frozenset({"up"})

_SELECTED: Final = re.compile(r"\b(up|mq_[a-z_]+)\b(?:\{([^}]*)\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPED: Final = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_VALUES: Final = re.compile(r"label_values\((.+), (\w+)\)")
_SHOWN: Final = re.compile(r"\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}")

Json = dict[str, Any]  # Any: files whose form the tests check


class Use(NamedTuple):
    """``metric`` is asked for with ``label`` at ``where``; "" asks for no label."""

    where: str
    metric: str
    label: str


def dashboard() -> Json:
    loaded: Json = json.loads(DASHBOARD.read_text())
    return loaded


def panels() -> list[Json]:
    """Those that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def variables() -> list[Json]:
    listed: list[Json] = dashboard()["templating"]["list"]
    return listed


def rules() -> list[Json]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> list[tuple[str, str]]:
    """Where, and PromQL of the dashboard as Grafana would send it with everything chosen."""
    return [
        (f"panel {panel['title']}", filled(target["expr"]))
        for panel in panels()
        for target in panel["targets"]
    ]


def filled(expression: str) -> str:
    """With a value for each variable."""
    text = expression.replace("$__rate_interval", "1m")
    for variable in variables():
        text = text.replace(f"${variable['name']}", ".*")
    return text


def uses() -> Iterator[Use]:
    """Every metric and label that the two files need."""
    for panel in panels():
        for target in panel["targets"]:
            where = f"panel {panel['title']}"
            yield from _uses_of(where, filled(target["expr"]), target["legendFormat"])
    for variable in variables():
        if variable["type"] == "query":
            found = _VALUES.fullmatch(variable["query"]["query"])
            assert found, variable
            where = f"variable {variable['name']}"
            yield from _uses_of(where, filled(found[1]), f"{{{{{found[2]}}}}}")
    for rule in rules():
        yield from _uses_of(
            f"rule {rule['alert']}", rule["expr"], " ".join(rule["annotations"].values())
        )


def _uses_of(where: str, expression: str, shown: str) -> Iterator[Use]:
    common = {label for group in _GROUPED.findall(expression) for label in _names(group)}
    common |= set(_SHOWN.findall(shown))
    found = _SELECTED.findall(_GROUPED.sub("", expression))
    assert found, f"{where} asks for no metric of ours: {expression}"
    for metric, matchers in found:
        yield Use(where, metric, "")
        for label in common | set(_MATCHER.findall(matchers)):
            yield Use(where, metric, label)


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}
