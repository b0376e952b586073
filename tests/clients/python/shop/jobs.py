"""Tasks that leave a line in a file, so that a test sees what ran, and in which order."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from mqservice_client.django.compat import TaskContext, task

POLL_WAIT_S = 0.02


def note(line: str) -> None:
    with Path(os.environ["SHOP_NOTES"]).open("a") as notes:
        notes.write(f"{line}\n")


@task
def add(one: int, other: int) -> int:
    note(f"add {one} {other}")
    return one + other


@task
async def add_later(one: int, other: int) -> int:
    note(f"add_later {one} {other}")
    return one + other


@task
def remember(name: str) -> str:
    note(name)
    return name


@task(queue_name="mail")
def mail(address: str) -> None:
    note(f"mail {address}")


@task(takes_context=True)
def attempt(context: TaskContext[..., Any]) -> int:
    return context.attempt


@task(backend="stubborn", takes_context=True)
def fail_until(context: TaskContext[..., Any], wanted: int) -> int:
    note(f"attempt {context.attempt}")
    if context.attempt < wanted:
        raise ValueError(f"attempt {context.attempt} fails")
    return context.attempt


@task
def fail(reason: str) -> None:
    raise ValueError(reason)


@task
def hold(name: str, path: str) -> str:
    """Run until a file is there."""
    note(f"{name} begins")
    never = threading.Event()
    while not Path(path).exists():
        never.wait(POLL_WAIT_S)
    note(f"{name} ends")
    return name
