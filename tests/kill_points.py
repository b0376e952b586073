"""For processes of tests that are killed in the middle of what they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from django.db import connection

WAIT_S: Final = 60


def run_until_killed(module: str, *arguments: str) -> None:
    """Run a module of the tests on the database of the tests; it must kill itself."""
    url = urlsplit(os.environ["DATABASE_URL"])
    name = str(connection.settings_dict["NAME"])
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "DATABASE_URL": url._replace(path=f"/{name}").geturl()},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def die() -> NoReturn:
    """As ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives on")


def put_death(place: Any, name: str, *, is_done_first: bool) -> None:  # Any: module, class, manager
    """From now on whoever calls ``place.name`` dies, before it or after it is done."""
    real: Callable[..., Any] = getattr(place, name)

    def called(*args: Any, **kwargs: Any) -> NoReturn:  # Any: passed on as they come
        if is_done_first:
            real(*args, **kwargs)
        die()

    setattr(place, name, called)
