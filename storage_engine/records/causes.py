"""Normalizes the reason of a failed message to a cause that failures of one kind share; a pure
function.

    "Order 4711 of 'Ann' timed out after 30.5 s" ──▶ "Order <n> of <text> timed out after <n> s"

What differs from message to message becomes a sign in its place: numbers ``<n>``, ids and hex
``<id>``, times ``<time>``, quoted values ``<text>``, addresses ``<ip>`` and ``<email>``. A status
of HTTP stays, since it is part of the cause. Several like signs in a row count as one.

Signs are left as they are, so a cause is its own cause.
"""

from __future__ import annotations

import re
from typing import Final

CAUSE_CHARS_MAX: Final = 200
CUT_MARK: Final = "…"
_READ_CHARS_MAX: Final = 1_024  # of a reason: a few milliseconds, whatever stands in it
# What stands beside an id or a quoted value is no part of a word, nor of a sign that took the place
# of one: what is found does not depend on what was found beside it.
_APART_BEFORE: Final = r"(?<![a-zA-Z0-9_<>])"
_APART_AFTER: Final = r"(?![a-zA-Z0-9_<>])"
_HEX: Final = "[0-9a-fA-F]"
_PARTS: Final = {
    "sign": r"<(?:n|id|time|text|ip|email)>",
    "status": r"(?i:\b(?:https?|status|status code|response code)[ :=/]{1,3}[1-5][0-9]{2})"
    + _APART_AFTER,
    "email": r"(?<![a-zA-Z0-9_.+-])[a-zA-Z0-9_.+-]{1,64}"
    r"@[a-zA-Z0-9-]{1,63}(?:\.[a-zA-Z0-9-]{1,63}){1,8}",
    "time": r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
    r"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?",
    "uuid": rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    "ip": r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?|"
    + _APART_BEFORE + rf"(?=[0-9a-fA-F:]*[0-9]){_HEX}{{0,4}}(?::{_HEX}{{0,4}}){{2,7}}"
    + _APART_AFTER,
    "quoted": _APART_BEFORE + r"""(?:"[^"]*"|'[^']*'|`[^`]*`)""" + _APART_AFTER
    + r"|“[^”]*”|‘[^’]*’|«[^»]*»|「[^」]*」",
    "hex": rf"0[xX]{_HEX}+|"
    + _APART_BEFORE + rf"(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F]){_HEX}{{8,}}" + _APART_AFTER,
    # Long and with three digits or more among letters: no word that anybody speaks.
    "id": _APART_BEFORE + r"(?=(?:[a-zA-Z_]*[0-9]){3})(?=[0-9_]*[a-zA-Z])[a-zA-Z0-9_]{12,}"
    + _APART_AFTER,
    "number": rf"(?:{_APART_BEFORE}[+-])?[0-9]+(?:[.,][0-9]+)*",
}  # fmt: skip
_VARIABLE: Final = re.compile("|".join(f"(?P<{name}>{part})" for name, part in _PARTS.items()))
_SIGNS: Final = {
    "email": "<email>",
    "time": "<time>",
    "uuid": "<id>",
    "ip": "<ip>",
    "quoted": "<text>",
    "hex": "<id>",
    "id": "<id>",
    "number": "<n>",
}
_SAME_IN_A_ROW: Final = re.compile(r"(<(?:n|id|time|text|ip|email)>)(?:[ ,;]+\1)+")


def cause_of(reason: str) -> str:
    """At most ``CAUSE_CHARS_MAX`` characters; empty where there is no reason."""
    text = _single_line(reason[:_READ_CHARS_MAX])
    # A sign or a cut can bring together what was apart, rarely. Each further look takes digits or
    # quotes away, and puts none there, so that it comes to an end.
    while (found := _cut(_SAME_IN_A_ROW.sub(r"\1", _VARIABLE.sub(_placeholder, text)))) != text:
        text = found
    return text


def _placeholder(found: re.Match[str]) -> str:
    kind = found.lastgroup
    assert kind is not None
    return _SIGNS.get(kind, found[0])


def _single_line(text: str) -> str:
    return " ".join("".join(map(_readable, text)).split())


def _readable(char: str) -> str:
    return char if char.isprintable() else " "


def _cut(text: str) -> str:
    if len(text) <= CAUSE_CHARS_MAX:
        return text
    kept = text[: CAUSE_CHARS_MAX - len(CUT_MARK)]
    return kept.rstrip() + CUT_MARK
