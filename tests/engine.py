"""Real storage engines for tests, each a process of its own.

They are forked from one that has imported all of ``storage_engine``: imports take longer than all
else that an engine does at its start.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.forked import Forked, Starter

START_WAIT_S = 60.0
POLL_WAIT_S = 0.01


@cache
def engine_starter() -> Starter:
    """For engines and the programs that work on their stores."""
    return Starter(
        "storage_engine.__main__",
        "storage_engine.replicated_log.obstore_bucket",
        "storage_engine.tools.detach",
        "storage_engine.tools.split.__main__",
    )


def fork_engine(*arguments: str, environ: Mapping[str, str], directory: Path, log: Path) -> Forked:
    """What ``python -m storage_engine`` with these arguments is, once all is imported.

    ``log``: the file to whose end it writes.
    """
    return fork_program(
        "storage_engine.__main__", *arguments, environ=environ, directory=directory, log=log
    )


def fork_program(
    module: str, *arguments: str, environ: Mapping[str, str], directory: Path, log: Path
) -> Forked:
    """The same of another module that ``engine_starter`` has."""
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as output:
        return engine_starter().start(
            f"{module}:main",
            module,
            *arguments,
            environ=environ,
            directory=directory,
            standard=(nothing.fileno(), output.fileno(), output.fileno()),
        )


@contextmanager
def running_engine(limits: Mapping[str, str] | None = None) -> Iterator[str]:
    """The path of its socket, once it accepts connections; its files are in ``store`` beside it.

    ``limits``: names and values of ``storage_engine.config``, as in its environment.
    """
    # A socket's path has to be short, hence not pytest's own directory.
    with tempfile.TemporaryDirectory(prefix="mq-engine-", dir="/tmp") as directory:
        path = Path(directory, "engine.sock")
        process = fork_engine(
            environ=os.environ
            | (limits or {})
            | {"MQ_ENGINE_STORE_DIR": f"{directory}/store", "MQ_ENGINE_SOCKET": str(path)},
            directory=Path.cwd(),
            log=Path(os.devnull),
        )
        try:
            _wait_for(path, process)
            yield str(path)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(START_WAIT_S)


def _wait_for(path: Path, process: Forked) -> None:
    deadline = time.monotonic() + START_WAIT_S
    pause = threading.Event()
    while not path.exists():
        assert process.poll() is None, "the engine ended at its start"
        assert time.monotonic() < deadline, "the engine opened no socket"
        pause.wait(POLL_WAIT_S)
