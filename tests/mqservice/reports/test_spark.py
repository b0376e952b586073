"""The process that Spark runs in: what is heard of it, and that nothing of it stays."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mqservice.lib.clock import SystemClock
from mqservice.reports.programs import NICENESS, Failure, RunFailed, RunSuperseded
from mqservice.reports.spark import Outcome, Progress, run_spark
from tests.clock import ManualClock
from tests.mqservice.delivery.wait_until import wait_until
from tests.services import is_process_running

DONE = (
    '{"records": {"2026-01-05": 3}, "incomplete_days": {"main": []}, '
    '"report_rows": {"usage_daily": 1}}'
)
# A child of the process in the same session, as Java is; it would stay for an hour.
WITH_CHILD = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen(['sleep', '3600'])\n"
    "open(sys.argv[1], 'w').write(str(child.pid))\n"
    "print('started', flush=True)\n"
)


def run(
    code: str,
    *arguments: str,
    tell: Callable[[Progress], None] = lambda _: None,
    still_wanted: Callable[[], bool] = lambda: True,
    clock: ManualClock | None = None,
) -> Outcome:
    return run_spark(
        arguments,
        limit_s=60,
        clock=clock or SystemClock(),
        tell=tell,
        still_wanted=still_wanted,
        program=(sys.executable, "-c", code),
    )


def test_progress_is_reported_and_what_others_print_is_passed_over() -> None:
    told: list[Progress] = []
    code = (
        "print('Java says hello'); print('[1]')\n"
        'print(\'{"step": "ingest", "done": 0, "total": 2}\')\n'
        f"print('''{DONE}''')"
    )
    outcome = run(code, tell=told.append)
    assert told == [Progress("ingest", 0, 2)]
    assert outcome.records == {"2026-01-05": 3}


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (1, Failure.JOB_FAILED),
        (2, Failure.ARGUMENTS),
        (3, Failure.STORE_UNREADABLE),
        (4, Failure.NO_SPARK),
        (77, Failure.KILLED),
        (0, Failure.KILLED),  # it says that it is done, and not what
    ],
)
def test_an_exit_code_says_what_failed(code: int, failure: Failure) -> None:
    with pytest.raises(RunFailed) as caught:
        said = "print('x' * 9000 + ' there is no java', file=sys.stderr)"
        run(f"import sys; {said}; sys.exit({code})")
    assert caught.value.failure is failure
    assert caught.value.tail.endswith("there is no java")
    assert len(caught.value.tail) <= 4_000


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    clock = ManualClock()

    def started() -> bool:
        if (tmp_path / "pid").exists():
            clock.advance(60_000)
        return True

    with pytest.raises(RunFailed, match="longer than 60 s") as caught:
        run(WITH_CHILD + "child.wait()", str(tmp_path / "pid"), clock=clock, still_wanted=started)
    assert caught.value.failure is Failure.TIME_LIMIT
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_process_running(child))


def test_one_that_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    with pytest.raises(RunSuperseded):
        run(
            WITH_CHILD + "child.wait()",
            str(tmp_path / "pid"),
            still_wanted=lambda: not (tmp_path / "pid").exists(),
        )


def test_what_it_leaves_behind_when_it_ends_on_its_own_is_ended(tmp_path: Path) -> None:
    code = WITH_CHILD.replace("['sleep', '3600']", "['sleep', '3600'], stdout=-3, stderr=-3")
    run(code + f"print('''{DONE}''')", str(tmp_path / "pid"))
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_process_running(child))


def test_messages_go_first_on_a_busy_machine() -> None:
    more = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
    code = f"import os; assert os.nice(0) == min(19, {more}), os.nice(0)\nprint('''{DONE}''')"
    assert run(code).report_rows == {"usage_daily": 1}


def test_it_gets_none_of_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ_SECRET_KEY", "s" * 40)
    monkeypatch.setenv("DATABASE_URL", "postgres://u:p@h/d")
    monkeypatch.setenv("AWS_REGION", "eu")
    code = (
        "import os; assert os.environ['AWS_REGION'] == 'eu'\n"
        "assert not [name for name in os.environ if name.startswith(('MQ_', 'DATABASE'))]\n"
        f"print('''{DONE}''')"
    )
    assert run(code).report_rows == {"usage_daily": 1}
    assert "MQ_SECRET_KEY" in os.environ
