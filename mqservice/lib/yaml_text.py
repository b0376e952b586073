"""YAML as another way to write JSON: what both can express, and nothing that YAML parsers read
differently.

    YAML ──▶ [read_yaml] ──▶ a value of JSON          JSON's value ──▶ [write_yaml] ──▶ YAML
                 └── YamlFault: what, in which line and column
    YAML, pointers into the value ──▶ [find_places] ──▶ line and column of each

Read are the events of libyaml, never its objects: no tag makes anything, no alias is followed. A
word that one version of YAML takes for a text and another for a number or a truth is refused, and
so are names that are there twice, merges and several documents. A time is a text, as it is in JSON.

Written is what any YAML reader, of 1.1 or 1.2, reads as it is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml import CSafeDumper, CSafeLoader

DEPTH_MAX: Final = 32
NODE_COUNT_MAX: Final = 200_000  # of one text; the longest take some tenths of a second
DIGITS_MAX: Final = 18  # of a number: more than any setting, less than what takes time to read

_WORDS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
# Truths of YAML 1.1, and numbers of one version that are others, or texts, in the other.
_UNCLEAR: Final = re.compile(
    r"y|n|yes|no|on|off"
    r"|[-+]?(0[0-7_]+|0[0-9_]+|0b[01_]+|0o[0-7]+|0x[0-9a-f_]+|[0-9][0-9_]*(:[0-5]?[0-9])+)"
    r"|[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(e[-+]?[0-9]+)?"
    r"|[-+]?\.inf|\.nan",
    re.IGNORECASE,
)
_MERGE: Final = "<<"
_SHOWN_CHARS_MAX: Final = 40
# What is written without quotes: a word, or a duration, which no reader takes for anything else.
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*|([0-9]+(ms|[smhd]))+")

Place = tuple[int, int]
Event = Any  # Any: the events of PyYAML, whose fields their types do not all have


class YamlFault(ValueError):
    """What is wrong, and where: ``line`` and ``column`` from 1."""

    def __init__(self, detail: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {detail}")
        self.detail, self.line, self.column = detail, line, column


def read_yaml(body: bytes) -> object:
    """The value; None of a text that has none. Raises YamlFault."""
    reader = _Reader(body)
    return reader.document()


def find_places(body: bytes, pointers: Iterable[str]) -> dict[str, Place]:
    """Where the values at JSON pointers stand in a text that ``read_yaml`` has read.

    A member of an object stands where its name does. What is not there has the place of what it
    would be in.
    """
    reader = _Reader(body, wanted=set(_with_parents(pointers)))
    reader.document()
    found: dict[str, Place] = {}
    for pointer in pointers:
        present = (each for each in _with_parents([pointer]) if each in reader.places)
        found[pointer] = reader.places[next(present, "")] if reader.places else (1, 1)
    return found


def write_yaml(value: object) -> bytes:
    """A value of JSON, with the members of objects in their order."""
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True,
        width=1 << 16, encoding="utf-8",
    )  # fmt: skip


class _Reader:
    """One pass over one text; ``wanted``: the pointers whose places are kept."""

    def __init__(self, body: bytes, wanted: set[str] | None = None) -> None:
        self._text = _decoded(body)
        self._wanted = wanted
        self._count = 0
        self._events = self._all_events()
        self.places: dict[str, Place] = {}

    def document(self) -> object:
        assert isinstance(next(self._events), yaml.StreamStartEvent)
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), "", 0)
        next(self._events)
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            _reject("a second document starts here, but only one is read", event)
        return value

    def _value(self, event: Event, pointer: str, depth: int) -> object:
        self._count += 1
        if self._count > NODE_COUNT_MAX:
            _reject(f"it has more than {NODE_COUNT_MAX:,} values", event)
        if depth > DEPTH_MAX:
            _reject(f"it is nested more than {DEPTH_MAX} deep", event)
        self._reject_references(event)
        if self._wanted is not None and pointer in self._wanted:
            self.places.setdefault(pointer, _place_of(event))
        if isinstance(event, yaml.SequenceStartEvent):
            return self._items(pointer, depth)
        if isinstance(event, yaml.MappingStartEvent):
            return self._members(pointer, depth)
        return _scalar(event)

    def _items(self, pointer: str, depth: int) -> list[object]:
        items: list[object] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._value(event, self._below(pointer, str(len(items))), depth + 1))
        return items

    def _members(self, pointer: str, depth: int) -> dict[str, object]:
        members: dict[str, object] = {}
        lines: dict[str, int] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            self._reject_references(event)
            name = _name(event)
            if name in members:
                _reject(f"{_shown(name)} was already given in line {lines[name]}", event)
            lines[name] = _place_of(event)[0]
            place = self._below(pointer, name)
            if self._wanted is not None and place in self._wanted:
                self.places[place] = _place_of(event)
            members[name] = None
            members[name] = self._value(next(self._events), place, depth + 1)
        return members

    def _below(self, pointer: str, name: str) -> str:
        """Not written where nobody wants places: that costs as much as all else."""
        if self._wanted is None:
            return ""
        return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"

    def _reject_references(self, event: Event) -> None:
        if isinstance(event, yaml.AliasEvent):
            name = _shown(str(event.anchor))[1:-1]
            _reject(f"*{name} is an alias: write out the value it stands for", event)
        if event.anchor is not None:
            _reject(
                f"&{_shown(event.anchor)[1:-1]} is an anchor: anchors are not allowed here", event
            )
        if event.tag is not None:
            _reject(f"{_shown(event.tag)} is a tag: tags are not allowed here", event)

    def _all_events(self) -> Iterator[Event]:
        try:
            yield from yaml.parse(self._text, Loader=CSafeLoader)
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            line, column = (0, 0) if mark is None else (mark.line, mark.column)
            told = ", ".join(filter(None, (exc.context, exc.problem)))
            raise YamlFault(told or "this is not YAML", line + 1, column + 1) from None
        except yaml.reader.ReaderError as exc:
            raise _fault_at(self._text.encode(), exc.position, str(exc.reason)) from None


class _Dumper(CSafeDumper):
    """Writes texts in quotes wherever a reader might take them for something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(text) is not None and not _is_ambiguous(text)
    # The tag of texts is implied by the quotes, and by a plain word that is nothing else.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent_text)


def _is_ambiguous(text: str) -> bool:
    return text in _WORDS or _NUMBER.fullmatch(text) is not None or bool(_UNCLEAR.fullmatch(text))


def _scalar(event: Event) -> object:
    text: str = event.value
    if not event.implicit[0]:  # in quotes, or in a block
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        if len(text) > DIGITS_MAX:
            _reject(f"a number has more than {DIGITS_MAX} digits", event)
        number: int | float = json.loads(text)
        if number in (float("inf"), float("-inf")):
            _reject(f"{text} is too large", event)
        return number
    _reject_ambiguous(text, event)
    return text


def _name(event: Event) -> str:
    """Of a member. Raises YamlFault: what is no text could not be a name in JSON."""
    if not isinstance(event, yaml.ScalarEvent):
        _reject("a name must be a string, found a list or an object", event)
    name: str = event.value
    if event.implicit[0]:
        if name == _MERGE:
            _reject("<< does not merge here: write out the members", event)
        _reject_ambiguous(name, event)
    return name


def _reject_ambiguous(text: str, event: Event) -> None:
    if _NUMBER.fullmatch(text) is None and _UNCLEAR.fullmatch(text):
        _reject(
            f"YAML parsers read {_shown(text)[1:-1]} differently: put strings in "
            "quotes, and write numbers and true or false as in JSON",
            event,
        )


def _shown(text: str) -> str:
    short = text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
    return json.dumps(short, ensure_ascii=False)


def _reject(detail: str, event: Event) -> NoReturn:
    raise YamlFault(detail, *_place_of(event))


def _place_of(event: Event) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise _fault_at(body, exc.start, "this is not UTF-8") from None


def _fault_at(content: bytes, offset: int, detail: str) -> YamlFault:
    before = content[:offset]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode("utf-8", "replace")) + 1
    return YamlFault(detail, before.count(b"\n") + 1, column)


def _with_parents(pointers: Iterable[str]) -> Iterator[str]:
    """Each pointer, and then those of what it is in, up to the whole."""
    for pointer in pointers:
        while pointer:
            yield pointer
            pointer = pointer.rpartition("/")[0]
        yield ""
