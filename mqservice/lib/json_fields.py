"""Reads the fields of a JSON object and collects every error, for one response that names them all.

    body ──▶ read_object ──▶ [Fields] ── integer, choice, … ──▶ values, None where absent
                                └── faults, each with its pointer ──▶ refuse ──▶ Problem

A field that is null counts as left out, unless its reader says otherwise. A value of the wrong form
is BAD_REQUEST, one out of its range ILLEGAL_SETTING.
"""

from __future__ import annotations

import enum
from typing import Final, TypeVar, cast

import msgspec

from mqservice.lib.durations import parse_duration_ms
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.timestamps import parse_rfc3339

FAULTS_MAX: Final = 20
ChoiceT = TypeVar("ChoiceT", bound=enum.StrEnum)
_SHOWN_CHARS_MAX: Final = 60


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

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self.find(name)
        return None if value is None else self.checked_integer(name, value, low, high)

    def checked_integer(self, place: str, value: object, low: int, high: int) -> int | None:
        """``value`` when it is a whole number in the range; ``place`` is a pointer's last part."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.fault(place, f"must be a whole number, found {shown(value)}")
            return None
        if not low <= value <= high:
            self.out_of_range(place, f"must be in [{low}, {high}], found {shown(value)}")
            return None
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        value = self.find(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fault(name, f"must be a number, found {shown(value)}")
            return None
        # ``math.isfinite`` fails for a whole number that no float can hold; this does not.
        if not low <= value <= high:
            self.out_of_range(name, f"must be in [{low:g}, {high:g}], found {shown(value)}")
            return None
        return float(value)

    def boolean(self, name: str) -> bool | None:
        value = self.find(name)
        if value is None or isinstance(value, bool):
            return value
        self.fault(name, f"must be true or false, found {shown(value)}")
        return None

    def choice(self, name: str, kinds: type[ChoiceT]) -> ChoiceT | None:
        value = self.find(name)
        if value is None:
            return None
        try:
            return kinds(cast("str", value))
        except ValueError:
            self.fault(name, f"must be one of {', '.join(kinds)}, found {shown(value)}")
            return None

    def pick_twin(self, name: str) -> str | None:
        """Which of the twins ``name`` and ``name_ms`` is there; both are a fault."""
        text, ms = self.find(name), self.find(f"{name}_ms")
        if text is not None and ms is not None:
            self.fault(name, f"{name} and {name}_ms mean the same; give only one of them")
            return None
        return name if text is not None else f"{name}_ms" if ms is not None else None

    def duration_ms(self, name: str, low_ms: int, high_ms: int) -> int | None:
        """One duration out of the twins ``name``, a text, and ``name_ms``, milliseconds."""
        given = self.pick_twin(name)
        if given is None:
            return None
        return self.checked_duration_ms(
            given, self._content[given], low_ms, high_ms, is_text=given == name
        )

    def checked_duration_ms(
        self, place: str, value: object, low_ms: int, high_ms: int, *, is_text: bool
    ) -> int | None:
        """``value`` in milliseconds when it is a duration in the range."""
        if not is_text:
            return self.checked_integer(place, value, low_ms, high_ms)
        try:
            if not isinstance(value, str):
                raise ValueError(f"must be a duration such as 30s, found {shown(value)}")
            ms = parse_duration_ms(value)
        except ValueError as exc:
            self.fault(place, str(exc))
            return None
        if not low_ms <= ms <= high_ms:
            self.out_of_range(place, f"must be {low_ms} ms to {high_ms} ms long, found {value}")
            return None
        return ms

    def time_ms(self, name: str) -> int | None:
        """Milliseconds since the epoch of an RFC 3339 time, never negative."""
        value = self.find(name)
        if value is None:
            return None
        try:
            return max(0, parse_rfc3339(cast("str", value)))
        except (ValueError, TypeError, OverflowError):
            self.fault(
                name, f"must be a time such as 2026-12-01T08:00:00.000Z, found {shown(value)}"
            )
            return None

    def object(self, name: str) -> Fields | None:
        """The fields of an object in this one."""
        value = self.find(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fault(name, f"must be an object, found {shown(value)}")
            return None
        return Fields(value, f"{self._pointer}/{name}", self.faults)

    def fault(self, place: str, detail: str) -> None:
        self.faults.append(ProblemItem(self._place(place), "BAD_REQUEST", detail))

    def out_of_range(self, place: str, detail: str) -> None:
        self.faults.append(ProblemItem(self._place(place), "ILLEGAL_SETTING", detail))

    def reject_unknown(self) -> None:
        """Every field that nobody has asked for is a fault."""
        for name in self._content:
            if name not in self._known:
                escaped = name.replace("~", "~0").replace("/", "~1")
                self.fault(escaped, "unknown field")

    def reject(self) -> None:
        """Raises Problem with all faults, when there are any."""
        if not self.faults:
            return
        codes = {fault.code for fault in self.faults}
        code = "BAD_REQUEST" if "BAD_REQUEST" in codes else "ILLEGAL_SETTING"
        first = self.faults[0]
        raise Problem.of(code, f"{first.pointer}: {first.detail}", errors=self.faults[:FAULTS_MAX])

    def _place(self, place: str) -> str:
        return f"{self._pointer}/{place}"


def read_object(body: bytes) -> Fields:
    """The fields of a request's body; none of an empty one. Raises Problem: it is no object."""
    try:
        content: object = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _refusal("the body is not valid JSON") from None
    except RecursionError:
        raise _refusal("the body is nested too deeply") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise _refusal(f"the body must be an object, found {shown(content)}")
    return Fields(content)


def shown(value: object) -> str:
    """A value as JSON, not too long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def _refusal(detail: str) -> Problem:
    return Problem.of("BAD_REQUEST", detail, errors=[ProblemItem("", "BAD_REQUEST", detail)])
