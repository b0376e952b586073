"""The dashboard and the rules of ``deploy/`` are whole, and say where to read on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.monitoring_files import (
    PROMETHEUS,
    ROOT,
    RULES_TEST,
    SCRAPES,
    Json,
    dashboard,
    panels,
    rules,
    uses,
    variables,
)
from tests.docs.markdown import Page
from tests.storage_engine.faults.machine import need_prometheus

# Of Grafana's units, those that mean what our metrics are in.
UNITS = {"none", "short", "percentunit", "s", "bytes", "Bps", "cps"}
COLUMNS = 24


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_says_what_is_wrong_what_to_do_and_where_to_read(rule: Json) -> None:
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    about = rule["annotations"]
    assert set(about) == {"summary", "description", "runbook"}
    assert not about["summary"].endswith(".")
    assert about["description"].endswith(".")
    page, _, anchor = about["runbook"].partition("#")
    assert anchor in Page(ROOT / page).anchors


def test_each_rule_has_a_test_of_its_own_and_one_name() -> None:
    tested = [
        match
        for test in yaml.safe_load(RULES_TEST.read_text())["tests"]
        for each in test["promql_expr_test"]
        for sample in each["exp_samples"]
        for match in re.findall(r'alertname="(\w+)"', sample["labels"])
    ]
    assert tested == [rule["alert"] for rule in rules()]


@pytest.mark.parametrize(
    "arguments",
    [["check", "rules", "rules.yml"], ["test", "rules", RULES_TEST.name]],
    ids=["check", "test"],
)
def test_promtool_finds_the_rules_right(arguments: list[str]) -> None:
    done = subprocess.run(
        [need_prometheus("promtool"), *arguments],
        cwd=PROMETHEUS, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_the_scrapes_right(tmp_path: Path) -> None:
    for name in (SCRAPES.name, "rules.yml"):
        (tmp_path / name).write_text((PROMETHEUS / name).read_text())
    (tmp_path / "mqservice.key").write_text("mqk_example")
    done = subprocess.run(
        [need_prometheus("promtool"), "check", "config", SCRAPES.name],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_asks_the_prometheus_that_is_chosen() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    [first, *others] = variables()
    assert (first["name"], first["type"], first["query"]) == (
        "datasource", "datasource", "prometheus",
    )  # fmt: skip
    assert all(variable["datasource"] == chosen for variable in others)
    for panel in panels():
        assert [panel["datasource"], *(t["datasource"] for t in panel["targets"])] == [chosen] * (
            1 + len(panel["targets"])
        )


def test_every_panel_has_a_place_a_unit_and_words() -> None:
    taken: set[tuple[int, int]] = set()
    every = dashboard()["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    for panel in every:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0


def test_every_variable_of_a_query_is_declared() -> None:
    known = {variable["name"] for variable in variables()} | {"__rate_interval"}
    texts = [target["expr"] for panel in panels() for target in panel["targets"]]
    texts += [variable["query"]["query"] for variable in variables() if variable["type"] == "query"]

    assert {name for text in texts for name in re.findall(r"\$\{?(\w+)", text)} <= known


def test_the_operations_page_has_a_line_for_every_metric_that_is_used() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    for use in uses():
        base = re.sub(r"_(bucket|count|sum)$", "", use.metric)
        assert use.metric == "up" or f"`{base}`" in page, use
