"""Jobs that plant bugs which named tests must catch; each runs pytest in a process of its own.

steps ── name of a bug, or of a theme ──▶ [named_bugs] ──▶ tests.planted.run_plant ── Part ──▶ steps
"""

from __future__ import annotations

from tests.planted.catalogue import all_plants, get_plant
from tests.planted.run_plant import try_plant, try_unplanted
from tests.torture.evidence import Anomaly, Part, Planted


def named_bug(name: str) -> Part:
    """One bug; that its tests pass, or that it was planted wrongly, is an anomaly."""
    plant = get_plant(name)
    verdict = try_plant(plant)
    caught_as = "" if verdict.wrongly else verdict.caught_as
    planted = Planted(
        name=name, caught_by=", ".join(plant.tests), caught_as=caught_as, theme=plant.theme
    )
    if caught_as:
        return Part(counts={"planted": 1, "caught": 1}, planted=[planted])
    anomaly = (
        Anomaly("planted-wrongly", f"{name}: {verdict.wrongly}")
        if verdict.wrongly
        else Anomaly("planted-bug-missed", name)
    )
    return Part(counts={"planted": 1}, anomalies=[anomaly], planted=[planted])


def unplanted_tests(theme: str) -> Part:
    """The tests of a theme pass on the code as it is."""
    tests = {test for plant in all_plants() if plant.theme == theme for test in plant.tests}
    passed_count, wrong = try_unplanted(tests)
    if wrong or passed_count < len(tests):
        detail = wrong or f"{passed_count} passed of {len(tests)}"
        return Part(anomalies=[Anomaly("control-failed", f"{theme}: {detail}")])
    return Part(counts={"controls": len(tests)})
