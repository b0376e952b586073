"""``python -m storage_engine.tools.transfer COMMAND``: see ``importing`` and ``exporting``.

    inspect SOURCE --namespace X                    what an import would bring; nothing is changed
    import SOURCE --namespace X                     into the store of MQ_ENGINE_STORE_DIR
    export SOURCE --namespace X                     a RocketMQ store, in MQ_ENGINE_STORE_DIR; X may
                                                    be empty, for all

Stdout has JSON, one object a line: ``{"say": "step", …}`` now and then, ``{"say": "report", …}``
in the end. Exit codes: 0 done, 1 failed, 2 refused and nothing was changed; the reason is the last
line of stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import msgspec

from storage_engine.clock import SystemClock
from storage_engine.config import config_from_env
from storage_engine.errors import ConfigInvalid, StoreError
from storage_engine.tools.program_lines import print_line, print_progress
from storage_engine.tools.transfer.conversion import ImportLimits
from storage_engine.tools.transfer.exporting import export_store
from storage_engine.tools.transfer.importing import import_store, inspect_store
from storage_engine.tools.transfer.report import ExportReport, ImportReport, ReportLine
from storage_engine.tools.transfer.source import SourceRejected

EXIT_FAILED = 1
EXIT_REFUSED = 2


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    options = _parser().parse_args(arguments)
    try:
        report = _run(options)
    except (SourceRejected, ConfigInvalid) as exc:
        print(exc, file=sys.stderr)
        return EXIT_REFUSED
    except (StoreError, OSError) as exc:
        print(exc, file=sys.stderr)
        return EXIT_FAILED
    print_line(ReportLine(report=msgspec.Raw(msgspec.json.encode(report))))
    return 0


def _run(options: argparse.Namespace) -> ImportReport | ExportReport:
    source, namespace, clock = options.source, options.namespace, SystemClock()
    if options.command == "export":
        # The target is opened to be built and closed again: no segment will follow its last.
        config = msgspec.structs.replace(config_from_env(os.environ), prepare_segments=0)
        return asyncio.run(
            export_store(source, config, namespace, clock=clock, on_progress=print_progress)
        )
    limits = ImportLimits(options.name_chars_max, options.queue_count_max, options.retention_ms)
    if options.command == "inspect":
        return inspect_store(source, namespace, limits, on_progress=print_progress)
    config = config_from_env(os.environ)
    return asyncio.run(
        import_store(source, config, namespace, limits, clock=clock, on_progress=print_progress)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="storage_engine.tools.transfer")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("inspect", "show what an import would bring"),
        ("import", "make a store of this engine from a RocketMQ store"),
        ("export", "make a RocketMQ store from a store of this engine"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("source", type=Path)
        command.add_argument("--namespace", required=True)
        if name != "export":
            command.add_argument("--name-chars-max", type=int, default=64)
            command.add_argument("--queue-count-max", type=int, default=256)
            command.add_argument("--retention-ms", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
