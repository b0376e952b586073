"""``python -m storage_engine.tools.backup take STORE TARGET --socket S`` and ``… adopt STORE``.

Exit codes: 0 done, 1 not, with the reason in the last line of stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from storage_engine.errors import StoreError
from storage_engine.tools.backup.adopt import adopt
from storage_engine.tools.backup.file_copy import Pace
from storage_engine.tools.backup.protocol_lines import StartCopy
from storage_engine.tools.backup.take_backup import BackupFailed, take_backup
from storage_engine.tools.program_lines import print_line
from storage_engine.wire.sync_client import StoreClient

NICENESS = 10  # the engine and the web processes come first
TIMEOUT_MS = 60_000


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_engine.tools.backup")
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take", help="copy the store of a running engine")
    taking.add_argument("store", type=Path)
    taking.add_argument("target", type=Path)
    taking.add_argument("--socket", required=True, help="the engine's")
    taking.add_argument("--rate-bytes", type=int, default=0, help="a second; 0: no limit")
    adopting = commands.add_parser(
        "adopt", help="prepare a copied store so that an engine can start on it"
    )
    adopting.add_argument("store", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "adopt":
            adopt(options.store)
            return 0
        os.nice(NICENESS)
        with StoreClient(options.socket, client_name="backup", timeout_ms=TIMEOUT_MS) as client:
            take_backup(
                options.store,
                options.target,
                client,
                say=print_line,
                wait_for_go=_wait_for_start,
                pace=Pace(options.rate_bytes),
            )
    except (BackupFailed, StoreError, OSError) as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


def _wait_for_start() -> StartCopy:
    line = sys.stdin.buffer.readline()
    if not line:
        raise BackupFailed("the process that asked for the copy is gone")
    return msgspec.json.decode(line, type=StartCopy)


if __name__ == "__main__":
    sys.exit(main())
