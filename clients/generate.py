"""Makes the synchronous client of the asynchronous one: ``python -m clients.generate``.

    mqservice_client/aio/*.py ─▶ [synchronous] ─▶ mqservice_client/sync/*.py

The two differ in ``async`` and ``await``, in names, and in the side that they stand on
(``mqservice_client.sides``). A test compares what is there with what this makes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent / "python/mqservice_client"
SOURCE: Final = PACKAGE / "aio"
MADE: Final = PACKAGE / "sync"
NOTE: Final = "# Made from aio/{name} by `python -m clients.generate`; change that instead.\n"
_AWAITABLE: Final = re.compile(
    r"\n    def __await__.*?(?=\n\n\n|\n    (?:async )?def |\Z)", re.DOTALL
)
_WORDS: Final = (
    (re.compile(r"\bAsyncSide\b"), "SyncSide"),
    (re.compile(r"\bAsyncIterator\b"), "Iterator"),
    (re.compile(r"\bStopAsyncIteration\b"), "StopIteration"),
    (re.compile(r"\bAsync(?=[A-Z])"), ""),
    (re.compile(r"\basync (?=def|with|for)"), ""),
    (re.compile(r"\bawait "), ""),
    (re.compile(r"__a(enter|exit|iter|next)__"), r"__\1__"),
    (re.compile(r"\bGenerator, "), ""),
    (re.compile(r"The asynchronous client\. ``sync`` is made[^\"]*"), "The synchronous client."),
)


def synchronous(name: str, text: str) -> str:
    """The twin of a module."""
    text = _AWAITABLE.sub("", text)
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    return formatted(NOTE.format(name=name) + text)


def made_modules() -> dict[Path, str]:
    """What each file of ``sync`` should have in it."""
    return {
        MADE / path.name: synchronous(path.name, path.read_text())
        for path in sorted(SOURCE.glob("*.py"))
    }


def formatted(text: str) -> str:
    """As ruff writes it, imports sorted."""
    # A loop that yields each is a ``yield from`` once it is no longer asynchronous.
    fixes = ("--select", "I,UP028", "--fix", "--unsafe-fixes")
    for command in (("check", *fixes, "--exit-zero", "--quiet"), ("format",)):
        done = subprocess.run(
            [
                sys.executable, "-m", "ruff", *command,
                "--stdin-filename", str(MADE / "module.py"), "-",
            ],
            input=text, capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


def main() -> None:
    MADE.mkdir(exist_ok=True)
    modules = made_modules()
    for path in MADE.glob("*.py"):
        if path not in modules:
            path.unlink()
    for path, text in modules.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
