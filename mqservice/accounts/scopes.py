"""What a key may do with which topics and groups: scopes, written as strings.

    produce                 everything of its kind
    produce:orders*         topics and groups with this name, or with names that begin so
    consume:topic/orders*   topics only
    consume:group/billing   groups only

Who receives needs ``consume`` for the topic and for the group. Nothing is allowed that no scope
says; there is no way to forbid.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mqservice.lib.names import NAME_CHARS_MAX

SCOPES_MAX: Final = 32  # of one key
SCOPE_CHARS_MAX: Final = 96
ANYTHING: Final = "*"
_PATTERN: Final = re.compile(rf"[a-zA-Z0-9_-]{{0,{NAME_CHARS_MAX}}}\*?", re.ASCII)
_FORMS: Final = "produce, produce:orders*, consume:topic/orders or consume:group/billing*"


class Scope(enum.StrEnum):
    """What a key may do inside its namespaces."""

    PRODUCE = "produce"
    CONSUME = "consume"
    MANAGE = "manage"


class Kind(enum.StrEnum):
    """What a scope may be limited to."""

    TOPIC = "topic"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One scope. ``kind`` None: topics and groups. A ``*`` ends ``pattern`` or is not in it."""

    scope: Scope
    kind: Kind | None = None
    pattern: str = ANYTHING

    @property
    def is_whole(self) -> bool:
        """Whether it holds for everything, whatever its name."""
        return self.kind is None and self.pattern == ANYTHING

    @property
    def text(self) -> str:
        if self.is_whole:
            return self.scope.value
        kind = "" if self.kind is None else f"{self.kind.value}/"
        return f"{self.scope.value}:{kind}{self.pattern}"

    def allows(self, scope: Scope, kind: Kind, name: str) -> bool:
        return (
            scope is self.scope and self.kind in (None, kind) and _is_covered_by(name, self.pattern)
        )

    def covers(self, other: Grant) -> bool:
        """Whether it allows all that ``other`` does."""
        return (
            other.scope is self.scope
            and self.kind in (None, other.kind)
            and _is_covered_by(other.pattern, self.pattern)
        )


def parse_grant(text: str) -> Grant:
    """Raises ValueError that says what is wrong."""
    if len(text) > SCOPE_CHARS_MAX:
        raise ValueError(f"a scope has at most {SCOPE_CHARS_MAX} characters, found {len(text)}")
    action, colon, rest = text.partition(":")
    if action not in list(Scope):
        raise ValueError(
            f"a scope must be one of {', '.join(Scope)}, as in {_FORMS}; found {text!r}"
        )
    if not colon:
        return Grant(scope=Scope(action))
    kind, slash, pattern = rest.rpartition("/")
    if slash and kind not in list(Kind):
        raise ValueError(
            f"a scope can be limited to topic/ or group/, as in {_FORMS}; found {text!r}"
        )
    if not pattern or _PATTERN.fullmatch(pattern) is None:
        raise ValueError(
            "the pattern of a scope must be a name, or the start of a name and a *, "
            f"as in {_FORMS}; found {text!r}"
        )
    return Grant(scope=Scope(action), kind=Kind(kind) if slash else None, pattern=pattern)


def parse_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Each once, in the order of their texts. Raises ValueError."""
    grants = {grant.text: grant for grant in map(parse_grant, texts)}
    return tuple(grants[text] for text in sorted(grants))


def are_covered(wanted: Iterable[Grant], own: Iterable[Grant]) -> bool:
    """Whether ``wanted`` allow nothing that ``own`` do not."""
    having = tuple(own)
    return all(any(grant.covers(each) for grant in having) for each in wanted)


def _is_covered_by(name: str, pattern: str) -> bool:
    """Whether a name, or every name of a pattern, is one of ``pattern``."""
    if pattern.endswith(ANYTHING):
        return name.startswith(pattern[:-1])
    return name == pattern
