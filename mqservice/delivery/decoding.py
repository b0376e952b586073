"""Decodes bytes into structs, and turns msgspec's errors into JSON pointers.

body ──▶ msgspec decoder ──▶ struct
              │ ``Expected `str`, got `int` - at `$.keys[0]` ``
              ▼
         Fault(pointer="/keys/0", ...) ──▶ Problem 400 with errors[]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from mqservice.lib.problem import Problem, ProblemItem

T = TypeVar("T")

_AT: Final = re.compile(r"(.*) - at `(?:key in )?\$?([^`]*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([^\]]*)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`", re.DOTALL)
_BYTE: Final = re.compile(r"(.*) \(byte (\d+)\)", re.DOTALL)
_DETAIL_CHARS_MAX: Final = 300


class Fault(Exception):
    """One thing that is wrong with a request; ``pointer`` is relative to what was decoded."""

    def __init__(self, pointer: str, code: str, detail: str, *, item_code: str = "") -> None:
        super().__init__(detail)
        self.pointer = pointer
        self.code = code
        self.detail = detail
        self.item_code = item_code or code

    def under(self, prefix: str) -> Fault:
        """The same fault, seen from further out."""
        return Fault(prefix + self.pointer, self.code, self.detail, item_code=self.item_code)


def problem_of(*faults: Fault, stored: bool | None = None) -> Problem:
    """One refusal for all ``faults``; its code is the first one's."""
    first = faults[0]
    where = f" at {first.pointer}" if first.pointer else ""
    return Problem.of(
        first.code,
        first.detail + where,
        errors=[ProblemItem(f.pointer, f.item_code, f.detail) for f in faults],
        stored=stored,
    )


def decode(decoder: Callable[[bytes], T], content: bytes) -> T:
    """What ``decoder`` makes of ``content``.

    Raises:
        Fault: with the place, as a JSON pointer or, for bytes that are no JSON, as a byte offset.
    """
    try:
        return decoder(content)
    except msgspec.ValidationError as exc:
        raise fault_of(exc) from exc
    except msgspec.DecodeError as exc:
        raise syntax_fault(exc, content) from exc
    except UnicodeDecodeError as exc:
        raise _not_utf8(content) from exc
    except RecursionError as exc:
        raise Fault("", "BAD_REQUEST", "nested too deeply", item_code="INVALID_JSON") from exc


def fault_of(exc: msgspec.ValidationError) -> Fault:
    """The place and the complaint of a value that is well-formed but wrong."""
    text, path = str(exc), ""
    if match := _AT.fullmatch(text):
        text, path = match[1], match[2]
    pointer = pointer_of(path)
    if match := _UNKNOWN.fullmatch(text) or _MISSING.fullmatch(text):
        pointer += "/" + match[1].replace("~", "~0").replace("/", "~1")
        pointer = pointer[:_DETAIL_CHARS_MAX]
    item_code = "BODY_NOT_BASE64" if text.startswith("Invalid base64") else "INVALID_VALUE"
    return Fault(pointer, "BAD_REQUEST", text[:_DETAIL_CHARS_MAX], item_code=item_code)


def syntax_fault(exc: msgspec.DecodeError, content: bytes) -> Fault:
    """The byte offset at which ``content`` stops being JSON."""
    text = str(exc)
    if match := _BYTE.fullmatch(text):
        text, at = match[1], int(match[2])
    else:
        at = len(content)
    detail = f"{text} at byte {at}"
    return Fault("", "BAD_REQUEST", detail, item_code="INVALID_JSON")


def pointer_of(path: str) -> str:
    """msgspec's ``.keys[0]`` as ``/keys/0``; a place without a name, ``[...]``, ends it."""
    pointer = ""
    for name, index in _STEP.findall(path):
        if index == "...":
            break
        pointer += "/" + (name or index)
    return pointer


def _not_utf8(content: bytes) -> Fault:
    try:
        content.decode()
    except UnicodeDecodeError as exc:
        detail = f"byte {exc.start} is not valid UTF-8"
    else:
        detail = "a string is not valid UTF-8"
    return Fault("", "BAD_REQUEST", detail, item_code="INVALID_JSON")
