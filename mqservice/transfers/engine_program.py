"""Runs the engine's program for stores of RocketMQ and reads what it prints.

arguments ─▶ storage_engine.tools.transfer ─▶ {"say": "step"} … {"say": "report"} ─▶ a report
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from mqservice.supervisor.engine_program import EngineProgram
from mqservice.transfers.errors import TransferError, TransferRejected
from storage_engine.tools.program_lines import ProgressLine
from storage_engine.tools.transfer.report import ReportLine

Progress = Callable[[int, int], None]  # bytes done, bytes in all
ReportT = TypeVar("ReportT")
_MODULE: Final = "storage_engine.tools.transfer"
_LINES: Final = msgspec.json.Decoder(ReportLine | ProgressLine)
_EXIT_REFUSED: Final = 2


def run_program(
    arguments: Sequence[str], kind: type[ReportT], *, env: Mapping[str, str], on_progress: Progress
) -> ReportT:
    """Run the program to its end; its report.

    Raises TransferRejected, nothing was changed; TransferError, with the program's last words.
    """
    with EngineProgram(
        _MODULE, arguments, env=env, lines=_LINES, on_progress=on_progress, error=_error_of
    ) as program:
        report = program.receive().report
        program.end()
    return msgspec.json.decode(report, type=kind)


def _error_of(code: int, words: str) -> TransferError:
    return TransferRejected(words) if code == _EXIT_REFUSED else TransferError(words)
