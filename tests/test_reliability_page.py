"""The page of promises says what the committed evidence says and names only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tests.planted.catalogue import all_plants
from tests.storage_engine.planted.bugs import BUGS
from tests.torture.coverage import FAULTS, never_fired, with_coverage
from tests.torture.evidence import (
    Anomaly,
    Part,
    Planted,
    merged,
    read_evidence,
    with_steps,
    write_evidence,
)
from tests.torture.page import EVIDENCE, PAGE, ROOT, render
from tests.torture.plan import QUICK, Plan
from tests.torture.promises import PROMISES
from tests.torture.recorded_run import DRAWING, RECORDED_RUN, draw, read_recorded_run
from tests.torture.running import Job, run_jobs
from tests.torture.steps import planned_steps
from tests.torture.system import dealt

# Promises that no test shows; each is named on the page. The list may only shrink.
WITHOUT_TEST = {"S7"}
HERE = "tests/test_reliability_page.py"


def test_the_page_is_what_the_committed_evidence_makes() -> None:
    recorded = read_recorded_run(RECORDED_RUN)

    page = render(read_evidence(EVIDENCE), recorded)

    assert PAGE.read_text() == page, "python -m tests.torture page"
    assert DRAWING.read_text() == draw(recorded.recording), "python -m tests.torture page"


def test_every_test_that_a_promise_names_exists() -> None:
    missing = []
    for name in {name for promise in PROMISES for name in promise.tests}:
        file, _, function = name.partition("::")
        # Hypothesis makes a class of a state machine: ``TestDelivery = Delivery.TestCase``.
        pattern = rf"^((async )?def )?{function or 'test_.*'}( =|[(])"
        if re.search(pattern, (ROOT / file).read_text(), re.MULTILINE) is None:
            missing.append(name)

    assert missing == []


def test_every_promise_has_a_test_or_is_known_to_have_none() -> None:
    assert {promise.id for promise in PROMISES if not promise.tests} == WITHOUT_TEST
    assert len({promise.id for promise in PROMISES}) == len(PROMISES)


def test_every_step_of_a_promise_is_one_of_a_run() -> None:
    known = {step.name for step in planned_steps(Plan())}

    assert {name for promise in PROMISES for name in promise.steps} <= known


def test_committed_evidence_is_of_a_whole_run_without_anomalies() -> None:
    evidence = read_evidence(EVIDENCE)

    assert [step.name for step in evidence.steps] == [step.name for step in planned_steps(Plan())]
    assert evidence.violation_count == 0
    assert all(step.caught_count == len(step.planted) for step in evidence.steps)
    commits = {evidence.commit, *(step.commit for step in evidence.steps)}
    assert not any(commit.endswith("+") for commit in commits)


def test_committed_evidence_has_every_kind_of_fault_and_no_other() -> None:
    for step in read_evidence(EVIDENCE).steps:
        assert step.impossible or set(step.fired) == set(FAULTS.get(step.name, ()))


def test_a_fault_that_never_fired_is_an_anomaly_unless_it_is_impossible() -> None:
    kills = merged("kills", [Part(fired={"kill -9": 3})], seed_start=0, seed_end=1, duration_ms=0)
    whole = msgspec.structs.replace(kills, fired={"kill -9": 3, "kill -9 of a starting engine": 1})
    impossible = msgspec.structs.replace(kills, impossible="no signals")

    step = with_coverage(kills)

    assert step.violations == {"fault-never-fired": 1}
    assert step.details == ["fault-never-fired: kill -9 of a starting engine"]
    assert with_coverage(whole) == whole
    assert never_fired(impossible) == []


def test_a_page_says_which_fault_never_fired() -> None:
    evidence = read_evidence(EVIDENCE)
    kills = merged("kills", [], seed_start=0, seed_end=1, duration_ms=0)

    page = render(msgspec.structs.replace(evidence, steps=[kills]))

    assert "| kill -9 of a starting engine | kills | **never** |" in page


def test_planted_bugs_stand_by_their_themes_with_the_tests_that_tried_them() -> None:
    bugs = [
        Planted(name="a_b", caught_by="single_sends", caught_as="lost-write", theme="Disk"),
        Planted(name="c_d", caught_by=f"{HERE}::test_z", caught_as="", theme="Edges"),
        Planted(name="e_f", caught_by="tests/x/test_y.py::test_z", caught_as="", theme="Edges"),
    ]
    step = merged("planted_bugs", [Part(planted=bugs)], seed_start=0, seed_end=0, duration_ms=0)

    page = render(msgspec.structs.replace(read_evidence(EVIDENCE), steps=[step]))

    assert "**Disk**: 1 of 1 caught" in page
    assert "**Edges**: 0 of 2 caught" in page
    assert f"| c d | `{HERE}::test_z` | **not caught** |" in page
    assert "| e f | tests/x/test_y.py::test_z (removed since) | **not caught** |" in page


def test_a_bug_that_no_run_has_tried_is_named_and_one_that_is_gone_too() -> None:
    bug = Planted(name="long_gone", caught_by="single_sends", caught_as="lost-write", theme="Disk")
    step = merged("planted_bugs", [Part(planted=[bug])], seed_start=0, seed_end=0, duration_ms=0)

    page = render(msgspec.structs.replace(read_evidence(EVIDENCE), steps=[step]))

    assert (
        f"The catalogues have {len(all_plants()) + len(BUGS)} bugs. Not yet in this run: " in page
    )
    assert all(plant.name.replace("_", " ") in page for plant in all_plants())
    assert '. No longer in them: "long gone".\n' in page


def test_a_step_that_was_run_again_stands_beside_the_others_with_its_own_commit() -> None:
    kept = read_evidence(EVIDENCE)
    names = [step.name for step in kept.steps]
    again = merged("kills", [Part(counts={"kills": 7})], seed_start=1, seed_end=2, duration_ms=9)
    taken = msgspec.structs.replace(kept, date="2031-01-02", commit="abc1234", steps=[again])

    both = with_steps(kept, taken, names)

    assert [step.name for step in both.steps] == names
    assert both.commit == kept.commit
    assert [step.name for step in both.steps if step.commit == "abc1234"] == ["kills"]
    assert "[kills](#kills) (2031-01-02, commit `abc1234`) | 1 to 1 | 0 |" in render(both)


def test_a_step_of_another_machine_says_so() -> None:
    kept = read_evidence(EVIDENCE)
    names = [step.name for step in kept.steps]
    other = msgspec.structs.replace(kept.machine, cpu="Other CPU", cores=64)
    again = merged("kills", [], seed_start=1, seed_end=2, duration_ms=9)
    taken = msgspec.structs.replace(
        kept, date="2031-01-02", commit="abc1234", machine=other, steps=[again]
    )

    both = with_steps(kept, taken, names)

    assert [step.name for step in both.steps if step.machine == other] == ["kills"]
    assert "(2031-01-02, commit `abc1234` on Other CPU, 64 cores)" in render(both)


def test_evidence_is_formatted_the_same_way_each_time(tmp_path: Path) -> None:
    write_evidence(tmp_path / "again.json", read_evidence(EVIDENCE))

    assert (tmp_path / "again.json").read_bytes() == EVIDENCE.read_bytes()


def test_evidence_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(EVIDENCE.read_text().replace('"format_version": 1', '"format_version": 2'))

    with pytest.raises(ValueError, match="version 2"):
        read_evidence(path)


def test_parts_add_up_and_what_did_not_fire_is_not_named() -> None:
    parts = [
        Part(counts={"kills": 2}, fired={"kill -9": 2, "delay": 0}),
        Part(counts={"kills": 1}, anomalies=[Anomaly("gap", "there"), Anomaly("gap", "here")]),
    ]

    step = merged("kills", parts, seed_start=1, seed_end=3, duration_ms=7)

    assert step.counts == {"kills": 3}
    assert step.fired == {"kill -9": 2}
    assert step.violations == {"gap": 2}
    assert step.details == ["gap: there", "gap: here"]


def test_a_page_says_what_was_impossible_missed_or_violated() -> None:
    evidence = read_evidence(EVIDENCE)
    bug = Planted(name="two_engines_allowed", caught_by="second_engine", caught_as="")
    none = merged("power_cuts", [], seed_start=0, seed_end=0, duration_ms=0)
    missed = Part(anomalies=[Anomaly("planted-bug-missed", bug.name)], planted=[bug])
    steps = [
        msgspec.structs.replace(none, impossible="mounting needs root"),
        merged("planted_bugs", [missed], seed_start=0, seed_end=0, duration_ms=0),
    ]

    page = render(msgspec.structs.replace(evidence, steps=steps))

    assert "Not possible on that machine: mounting needs root." in page
    assert "0 of 1 planted bugs caught" in page
    assert "| two engines allowed | second engine | **not caught** |" in page
    assert "planted-bug-missed 1" in page


def test_a_job_that_fails_is_an_anomaly_of_the_run() -> None:
    [part] = run_jobs([Job(_raise, ())], 1)

    assert [anomaly.name for anomaly in part.anomalies] == ["harness-failed"]
    assert "no disk" in part.anomalies[0].detail


def test_a_scaled_plan_keeps_at_least_one_of_each() -> None:
    plan = QUICK.scaled(0.001)

    assert (plan.kills, plan.cuts, plan.crash_seed_count) == (1, 1, 1)
    assert plan.kills_a_loop == QUICK.kills_a_loop
    assert Plan().scaled(2).kills == 2 * Plan().kills


def _raise() -> Part:
    raise OSError("no disk")


def test_a_soak_fires_each_kind_before_one_comes_again() -> None:
    kinds = FAULTS["soak"]
    for seed in range(20):
        faults = dealt(seed)
        for _ in range(2):
            assert {next(faults).name for _ in kinds} == set(kinds)
