"""Runs the engine's program for stores of RocketMQ and reads what it prints.

arguments ─▶ storage_engine.tools.transfer ─▶ {"say": "step"} … {"say": "report"} ─▶ a report
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from mqservice.supervisor.child import die_with_parent
from mqservice.supervisor.processes import PYTHON
from mqservice.transfers.errors import TransferError, TransferRejected
from storage_engine.tools.program_lines import ProgressLine
from storage_engine.tools.transfer.report import ReportLine

Progress = Callable[[int, int], None]  # bytes done, bytes in all
ReportT = TypeVar("ReportT")
_MODULE: Final = "storage_engine.tools.transfer"
_EXIT_REFUSED: Final = 2


def run_program(
    arguments: Sequence[str], kind: type[ReportT], *, env: Mapping[str, str], told: Progress
) -> ReportT:
    """Run the program to its end; its report.

    Raises TransferRejected, nothing was changed; TransferError, with the program's last words.
    """
    parent = os.getpid()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [*PYTHON, _MODULE, *arguments],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=lambda: die_with_parent(parent),
        ) as process,
    ):
        assert process.stdout is not None
        found: ReportT | None = None
        try:
            for text in process.stdout:
                line = msgspec.json.decode(text, type=ProgressLine | ReportLine)
                if isinstance(line, ProgressLine):
                    told(line.done_bytes, line.total_bytes)
                else:
                    found = msgspec.json.decode(line.report, type=kind)
        except BaseException:
            process.kill()
            raise
        code = process.wait()
        if code == 0 and found is not None:
            return found
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip().splitlines()
        words = said[-1] if said else "the engine's program ended with no output"
        raise TransferRejected(words) if code == _EXIT_REFUSED else TransferError(words)
