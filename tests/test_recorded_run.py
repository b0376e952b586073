"""What a run of a cluster's faults leaves: seconds, marks, and the drawing made of them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from tests.acceptance.cluster_faults.clients import Answer
from tests.acceptance.cluster_faults.recording import Fired, Recording, Second, recorded
from tests.torture.recorded_run import draw

BEGUN = 100.0


def recording() -> Recording:
    """Ten a second for six seconds, but none from 2.5 to 4.5 s, when five are rejected."""
    times = [at / 10 for at in range(60) if not 25 <= at < 45]
    answers = [Answer(BEGUN + at, 0.02 if at < 5 else 2.0, 5, 0, 0) for at in times]
    answers.append(Answer(BEGUN + 3, 1.0, 0, 5, 0))
    fault = Fired(name="kill", label="killed", begun=BEGUN + 2.5, over=BEGUN + 4.6, text="b serves")
    return recorded(
        answers, [BEGUN + 0.5, BEGUN + 5], [fault], begun=BEGUN, ended=BEGUN + 6.3,
        object_store="one",
    )  # fmt: skip


def test_each_second_has_what_came_in_it() -> None:
    seconds = recording().seconds

    assert len(seconds) == 6
    assert [each.acknowledged for each in seconds] == [50, 50, 25, 0, 25, 50]
    assert [each.rejected for each in seconds] == [0, 0, 0, 5, 0, 0]
    assert [each.delivered for each in seconds] == [1, 0, 0, 0, 0, 1]
    assert seconds[3] == Second(
        acknowledged=0, rejected=5, unknown=0, delivered=0, p50_ms=None, p99_ms=None
    )
    assert (seconds[0].p50_ms, seconds[5].p99_ms) == (20.0, 2_000.0)


def test_a_mark_has_the_longest_time_without_an_acknowledgement() -> None:
    (mark,) = recording().marks

    assert (mark.start_s, mark.end_s) == (2.5, 4.6)
    assert mark.gap_ms == 2_100
    assert mark.text == "b serves"


def test_the_drawing_names_the_fault_and_leaves_a_gap_where_nothing_was_acknowledged() -> None:
    drawing = draw(recording())

    root = ET.fromstring(drawing)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"killed", "2.1 s"} <= set(texts)
    assert len(re.findall(r'<polyline class="p50"', drawing)) == 2
