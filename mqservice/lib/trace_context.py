"""W3C trace context: what of a request's ``traceparent`` and ``tracestate`` its messages keep.

    headers ──▶ [context_of] ──▶ {"traceparent": …, "tracestate": …} ──▶ [carry] ──▶ properties

What is not as https://www.w3.org/TR/trace-context/ has it counts as absent: a trace is never the
reason to refuse a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACEPARENT_HEADER: Final = TRACEPARENT.encode()
_TRACESTATE_HEADER: Final = TRACESTATE.encode()

TRACESTATE_CHARS_MAX: Final = 512  # as many as everybody must pass on
_TRACESTATE_MEMBERS_MAX: Final = 32
_HEADER_BYTES_MAX: Final = 1_024
_VERSION: Final = "00"
_SAMPLED: Final = 1
_PARENT: Final = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})"
    r"-(?P<ids>(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-[!-~]*)?"
)
_MEMBER: Final = re.compile(
    r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


def known_parent(text: str) -> str | None:
    """``text`` as a ``traceparent`` of version 00; None when it is none.

    Of a later version that is as much of it as version 00 has.
    """
    if len(text) > _HEADER_BYTES_MAX:
        return None
    found = _PARENT.fullmatch(text)
    if found is None:
        return None
    if found["version"] == _VERSION:
        return None if found["more"] else text
    return f"{_VERSION}-{found['ids']}-{int(found['flags'], 16) & _SAMPLED:02x}"


def context_of(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The properties that messages of a request with these headers get; none without a trace."""
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in headers:
        if name == TRACEPARENT_HEADER:
            parents.append(value)
        elif name == _TRACESTATE_HEADER:
            states.append(value)
    if len(parents) != 1:
        return {}
    parent = known_parent(parents[0].decode("latin-1"))
    if parent is None:
        return {}
    context = {TRACEPARENT: parent}
    state = _known_state(b",".join(states).decode("latin-1"))
    if state:
        context[TRACESTATE] = state
    return context


def carry(properties: dict[str, str], context: Mapping[str, str]) -> None:
    """Add ``context`` to the properties of a message, unless it has a trace context of its own."""
    if TRACEPARENT not in properties and TRACESTATE not in properties:
        properties.update(context)


def _known_state(text: str) -> str:
    """``text`` as a ``tracestate``, empty when it is none or too long."""
    if len(text) > TRACESTATE_CHARS_MAX:
        return ""
    members = [member.strip(" \t") for member in text.split(",")]
    members = [member for member in members if member]
    keys = {member.partition("=")[0] for member in members}
    if len(members) > _TRACESTATE_MEMBERS_MAX or len(keys) < len(members):
        return ""
    if not all(map(_MEMBER.fullmatch, members)):
        return ""
    return ",".join(members)
