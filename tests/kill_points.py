"""For processes of tests that are killed in the middle of what they do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn


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
