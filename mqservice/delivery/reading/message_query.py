"""The search language of messages: tokens, read the same over REST, in the console and on the
command line.

    topic:orders key:order-42 last:1h body:"502" amount > 100
        └──▶ [parse_query] ──▶ MessageQuery: where to look, parameters of a browse, body fields

token                          only messages
topic:NAME                     of the topic
group:NAME                     that are dead letters of the group
id:A,B  key:K  tag:A||B        with one of the ids, the key, one of the tags
last:1h  from:TIME  to:TIME    stored in the last hour, or between times
queue:3  offset:500            of a queue, from an offset on
body:"text"                    whose body contains the text
reason:"text"                  dead letters with the cause of this reason
amount > 100                   whose property compares so: = != < <= > >=
body.order.total > 100         whose JSON body has a field that compares so
sql:"a > 5 OR b IS NULL"       whose properties match a condition in SQL92
order-42                       with the key, or the id, that a word alone is

A value with white space stands in quotes, in which \\" and \\\\ are a quote and a backslash.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from mqservice.delivery.decoding import Fault
from mqservice.delivery.filters import filter_of_query
from mqservice.delivery.limits import BROWSE_COUNT_MAX
from mqservice.delivery.reading.body_fields import FieldCondition
from mqservice.lib.durations import parse_duration_ms
from mqservice.lib.timestamps import parse_rfc3339

TOKENS_MAX: Final = 64
_WHERE: Final = ("topic", "group")
# Tokens that are parameters of a browse, with an example of each.
_EXAMPLES: Final = {
    "topic": "topic:orders",
    "group": "group:billing",
    "id": "id:01679C42FC1C5916ED0B1323B800019A0A",
    "key": "key:order-42",
    "tag": "tag:paid",
    "last": "last:1h",
    "from": "from:2026-12-01T08:00:00Z",
    "to": "to:2026-12-01T09:00:00Z",
    "queue": "queue:0",
    "offset": "offset:500",
    "body": 'body:"502"',
    "reason": 'reason:"connection refused"',
    "sql": "sql:\"amount > 100 AND region = 'eu'\"",
}
# What a parameter of a browse is called, where that is not the name of the token.
_PARAMETERS: Final = {"body": "contains"}
_OPERATORS: Final = {"=": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SIGNS: Final = tuple("=<>!")
_SIGNS_HINT: Final = "write one of = != < <= > >="
_NAME: Final = r"[^\s:=<>!\"']+"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"(?!\S)'
_VALUE: Final = rf'{_QUOTED}|[^\s"]\S*'
_OPERAND: Final = rf'{_QUOTED}|[^\s"=<>!]\S*'  # a == 5 and a => 5 are no comparisons
_TOKEN: Final = re.compile(
    rf"(?P<name>{_NAME})(?::(?P<text>{_VALUE})?"
    rf"|\s*(?P<sign><=|>=|<>|!=|=|<|>)\s*(?P<operand>{_OPERAND})?)"
    rf"|(?P<word>{_NAME})(?=\s|$)",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
# What fits into 64 bits, as a cursor is bound to it.
_WHOLE_NUMBERS: Final = range(-(1 << 63), 1 << 64)
_LAST_MS_MAX: Final = (1 << 63) - 1  # all there is
_JOINING_WORDS: Final = ("AND", "OR", "NOT")
_MESSAGE_ID: Final = re.compile(r"[0-9A-F]{32,34}", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# A day alone is meant from its beginning and to its end.
_OF_DAY: Final = {"from": "T00:00:00Z", "to": "T23:59:59.999Z"}
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
_BODY_FIELD: Final = "body."


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """``sign`` is ``:`` or that of a comparison; the token is ``text[start:end]`` of its query."""

    name: str
    sign: str
    value: str
    is_quoted: bool
    start: int
    end: int

    @property
    def is_comparison(self) -> bool:
        return self.sign != ":"


class MessageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``values``: parameters of a browse, as in a query string. ``fields`` are compared with JSON
    bodies. ``last_ms`` is None unless there is a ``last:``.
    """

    topic: str = ""
    group: str = ""
    ids: list[str] = []
    values: dict[str, str] = {}
    last_ms: int | None = None
    fields: list[FieldCondition] = []

    @property
    def is_of_all_topics(self) -> bool:
        """Whether it says nowhere where to look and what it asks for is found through an index."""
        return not self.topic and not self.group and (bool(self.ids) or "key" in self.values)

    @property
    def body_text(self) -> str:
        """What is looked for in bodies; empty when nothing is."""
        return self.values.get("contains", "") or " ".join(
            ".".join(field.path) for field in self.fields
        )


def parse_query(text: str) -> MessageQuery:
    """What ``text`` asks for. Raises Fault, which says where it goes wrong and what would be
    right.
    """
    values: dict[str, str] = {}
    conditions: list[str] = []
    fields: list[FieldCondition] = []
    for token in tokens_of(text):
        if token.is_comparison:
            if token.name.startswith(_BODY_FIELD):
                fields.append(_field(token))
            else:
                conditions.append(_condition(token))
            continue
        if token.name == "sql":
            # By itself, so that its parentheses end in it.
            if wanted := filter_of_query(None, None, token.value).text:
                conditions.append(f"({wanted})")
        elif token.name in values:
            hint = "; several tags are one token: tag:a||b" if token.name == "tag" else ""
            raise _fault(token.start, f"{token.name}: is given twice{hint}")
        else:
            values[token.name] = token.value
    if "last" in values and ("from" in values or "to" in values):
        raise Fault("", "BAD_REQUEST", "give last:, or from: and to:, not both")
    if "id" in values and (others := [*(values.keys() - {"id", *_WHERE}), *conditions, *fields]):
        shown = others[0] if isinstance(others[0], str) else "a body field"
        raise Fault("", "BAD_REQUEST", f"id: selects messages by itself; leave {shown} out")
    topic, group = (values.pop(name, "") for name in _WHERE)
    if topic and group:
        raise Fault("", "BAD_REQUEST", "give topic:, or group: for its dead letters, not both")
    ids, last = values.pop("id", None), values.pop("last", None)
    for name in ("from", "to"):
        if name in values:
            values[name] = _time_of(values[name], of_day=_OF_DAY[name])
    if conditions:
        values["sql"] = " AND ".join(conditions)
    return MessageQuery(
        topic=topic,
        group=group,
        ids=[] if ids is None else _ids(ids),
        values={_PARAMETERS.get(name, name): value for name, value in values.items()},
        last_ms=None if last is None else _last_ms(last),
        fields=fields,
    )


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of ``text`` in their order. Raises Fault."""
    at, count = 0, 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if at == len(text):
            return
        found = _TOKEN.match(text, at)
        if found is None:
            raise _fault(at, _no_token(text[at:]))
        count += 1
        if count > TOKENS_MAX:
            raise _fault(at, f"there are more than {TOKENS_MAX} tokens")
        yield _token(found)
        at = found.end()
        if at < len(text) and not text[at].isspace():
            raise _fault(at, f"white space must stand between tokens, found {text[at]!r}")


def replaced(text: str, drop: Collection[str], *new: str) -> str:
    """``text`` without its tokens of these names, and with ``new`` ones at its end; a text that is
    no query loses nothing. A property that is called so is still compared.
    """
    try:
        kept = [
            text[each.start : each.end]
            for each in tokens_of(text)
            if each.is_comparison or each.name not in drop
        ]
    except Fault:
        kept = [text.strip()]
    return " ".join([*kept, *new])


def written(name: str, value: str) -> str:
    """The token that says so, in quotes where it needs them."""
    if value and re.fullmatch(r'[^\s"]\S*', value):
        return f"{name}:{value}"
    return f"{name}:{_quoted(value)}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _token(found: re.Match[str]) -> Token:
    start, end = found.span()
    if word := found["word"]:
        if word.upper() in _JOINING_WORDS:
            detail = f'all tokens must hold; write sql:"a > 5 OR b < 3", or key:{word} for a key'
            raise _fault(start, detail)
        name = "id" if _MESSAGE_ID.fullmatch(word) else "key"
        return Token(name=name, sign=":", value=word, is_quoted=False, start=start, end=end)
    name, sign = found["name"], found["sign"] or ":"
    value = found["text"] if sign == ":" else found["operand"]
    if sign == ":" and name not in _EXAMPLES:
        raise _fault(start, _unknown(name, value or ""))
    if not value:
        if found.string.startswith('"', end):
            raise _fault(end, 'a quote is not closed; write body:"two words"')
        if sign != ":" and found.string[end : end + 1] in _SIGNS:
            raise _fault(end, f"{name} {sign}{found.string[end]} is no comparison; {_SIGNS_HINT}")
        example = _EXAMPLES[name] if sign == ":" else f"{name} {sign} 100"
        raise _fault(end, f"{name}{sign} lacks its value; write {example}")
    is_quoted = value.startswith('"')
    if is_quoted:
        value = _ESCAPED.sub(r"\1", value[1:-1])
        if not value:
            raise _fault(start, f'{name}{sign}"" is empty; leave it out')
    return Token(name=name, sign=sign, value=value, is_quoted=is_quoted, start=start, end=end)


def _unknown(name: str, value: str) -> str:
    close = difflib.get_close_matches(name.lower(), _EXAMPLES, n=1, cutoff=0.5)
    if name.startswith(_BODY_FIELD):
        return f"a field of the body is compared: write {name} = {value or 5}"
    meant = f"did you mean {close[0]}:{value}?" if close else f"write key:{name}:{value} for a key"
    return f"{name}: is not a token; {meant} Tokens are {', '.join(f'{n}:' for n in _EXAMPLES)}"


def _no_token(rest: str) -> str:
    if rest.startswith('"') or '"' in rest.split(maxsplit=1)[0]:
        if rest.count('"') % 2:
            return 'a quote is not closed; write body:"two words"'
        return 'quotes stand around a whole value; to search bodies write body:"two words"'
    return f"{rest[0]!r} starts no token; write {_EXAMPLES['key']}, or amount > 100"


def _condition(token: Token) -> str:
    """A comparison of a property, in SQL92. Raises Fault."""
    if not _IDENTIFIER.fullmatch(token.name):
        raise _fault(
            token.start,
            f"{token.name!r} cannot be a property here; its letters are a to z, 0 to 9, _ and $",
        )
    return f"{token.name} {_OPERATORS[token.sign]} {_literal(token)}"


def _literal(token: Token) -> str:
    value = token.value
    if not token.is_quoted:
        if _NUMBER.fullmatch(value) or value.upper() in ("TRUE", "FALSE"):
            return value
        value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value
    return "'" + value.replace("'", "''") + "'"


def _field(token: Token) -> FieldCondition:
    path = token.name.removeprefix(_BODY_FIELD).split(".")
    if "" in path:
        raise _fault(token.start, f"{token.name} has an empty part; write body.order.total > 100")
    value: str | int | float | bool = token.value
    if not token.is_quoted:
        if _NUMBER.fullmatch(token.value):
            value = _number_of(token.value)
        elif token.value.lower() in ("true", "false"):
            value = token.value.lower() == "true"
    return FieldCondition(path, _OPERATORS[token.sign], value)


def _number_of(text: str) -> int | float:
    """Exact up to 64 bits: a float would take one id for its neighbours."""
    if _WHOLE_NUMBER.fullmatch(text) and (number := int(text)) in _WHOLE_NUMBERS:
        return number
    return float(text)


def _ids(text: str) -> list[str]:
    ids = list(dict.fromkeys(part for part in text.split(",") if part))
    if not 1 <= len(ids) <= BROWSE_COUNT_MAX:
        raise Fault("", "BAD_REQUEST", f"id: takes 1 to {BROWSE_COUNT_MAX} ids, found {len(ids)}")
    return ids


def _last_ms(text: str) -> int:
    try:
        return min(parse_duration_ms(text), _LAST_MS_MAX)
    except ValueError:
        raise Fault(
            "", "BAD_REQUEST", f"last: takes a time such as 30s, 15m, 12h or 7d, found {text!r}"
        ) from None


def _time_of(text: str, *, of_day: str) -> str:
    """The RFC 3339 time of a ``from:`` or ``to:``, which may lack the zone (UTC), the seconds, or
    all but the day: then it is ``of_day``. Raises Fault.
    """
    if _DAY.fullmatch(text):
        text += of_day
    elif found := _TIME.fullmatch(text):
        text = f"{found[1]}{found[2] or ':00'}{found[3] or 'Z'}"
    try:
        parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise Fault(
            "",
            "BAD_REQUEST",
            f"a time is written 2026-12-01, 2026-12-01T08:00 or 2026-12-01T08:00:00.000Z, in UTC "
            f"unless it says otherwise; found {text[:40]!r}",
        ) from None
    return text


def _fault(at: int, detail: str) -> Fault:
    return Fault("", "BAD_REQUEST", f"at character {at + 1}: {detail}")
