"""An original reason, as an example of its cause."""

from __future__ import annotations


def sample_of(reason: str, chars_max: int) -> str:
    """A reason as people and PostgreSQL can read it: its own lines, no control characters."""
    lines = reason[:chars_max].splitlines()
    return "\n".join("".join(map(_readable, line)).rstrip() for line in lines).strip()


def _readable(char: str) -> str:
    return char if char.isprintable() else " "
