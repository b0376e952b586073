"""Why the service does not start, each with one line for people and its own exit code.

SupervisorError      1
├── ConfigInvalid    2  an environment variable that cannot be used
├── DataDirInUse     3  another supervisor owns the data directory
├── PortTaken        4  somebody else listens on MQ_PORT
├── BinaryMissing    5  no PostgreSQL or Valkey to start
└── StartFailed      6  a process ended or did not become ready in time
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class SupervisorError(Exception):
    """Root of all errors of this package; its text is what the user sees."""

    exit_code: ClassVar[int] = 1


class ConfigInvalid(SupervisorError):
    exit_code = 2


class DataDirInUse(SupervisorError):
    exit_code = 3

    def __init__(self, data_dir: Path, pid: int | None) -> None:
        owner = f"process {pid}" if pid is not None else "another process"
        super().__init__(
            f"The data directory {data_dir} is in use by {owner}. "
            "Stop it with `make stop` or `mqservice stop`, or set MQ_DATA_DIR to another directory."
        )
        self.pid = pid


class PortTaken(SupervisorError):
    exit_code = 4

    def __init__(self, bind: str, port: int) -> None:
        super().__init__(
            f"Port {port} on {bind} is in use by another program. Set MQ_PORT to a free port."
        )
        self.port = port


class BinaryMissing(SupervisorError):
    exit_code = 5


class StartFailed(SupervisorError):
    exit_code = 6
