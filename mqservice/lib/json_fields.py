"""Reads the fields of a JSON object and collects every error, for one response that names them all.

    body ──▶ read_object ──▶ [Fields] ── each setting of a table ──▶ values by column
                                 └── faults, each with its pointer ──▶ reject ──▶ Problem

A field that is null counts as left out, unless its setting says otherwise. A value of the wrong
form is BAD_REQUEST, one out of its range ILLEGAL_SETTING.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.wire import refused

FAULTS_MAX: Final = 20
_SHOWN_CHARS_MAX: Final = 60


def json_text(value: object) -> str:
    """A value as JSON, not too long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def escaped(name: str) -> str:
    """As a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


class Fields:
    """The fields of one object at ``pointer``; all objects of a request share ``faults``."""

    def __init__(
        self, content: dict[str, object], pointer: str = "", faults: list[ProblemItem] | None = None
    ) -> None:
        self._content = content
        self._pointer = pointer
        self.faults: list[ProblemItem] = [] if faults is None else faults
        self._known: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the field is there, null or not."""
        self._known.add(name)
        return name in self._content

    def find(self, name: str) -> object:
        """The field as it is; None where it is null or absent."""
        self._known.add(name)
        return self._content.get(name)

    def inner(self, content: dict[str, object], place: str) -> Fields:
        """The fields of an object in this one."""
        return Fields(content, f"{self._pointer}/{place}", self.faults)

    def fault(self, place: str, detail: str, code: str = "BAD_REQUEST") -> None:
        self.faults.append(ProblemItem(f"{self._pointer}/{place}", code, detail))

    def out_of_range(self, place: str, detail: str) -> None:
        self.fault(place, detail, "ILLEGAL_SETTING")

    def reject_unknown(self) -> None:
        """Every field that nobody has asked for is a fault."""
        for name in self._content:
            if name not in self._known:
                self.fault(escaped(name), "unknown field")

    def reject(self) -> None:
        """Raises Problem with all faults, when there are any."""
        if not self.faults:
            return
        codes = {fault.code for fault in self.faults}
        code = "BAD_REQUEST" if "BAD_REQUEST" in codes else "ILLEGAL_SETTING"
        first = self.faults[0]
        raise Problem.of(code, f"{first.pointer}: {first.detail}", errors=self.faults[:FAULTS_MAX])


def read_object(body: bytes) -> Fields:
    """The fields of a request's body; none of an empty one. Raises Problem: it is no object."""
    try:
        content: object = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise refused("", "the body is not valid JSON") from None
    except RecursionError:
        raise refused("", "the body is nested too deeply") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise refused("", f"the body must be an object, found {json_text(content)}")
    return Fields(content)
