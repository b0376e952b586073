"""The JSON files of ``config/``, in RocketMQ's dialect and in the standard one.

    {"offsetTable":{"orders@billing":{0:10,1:5}}} ── [decode] ──▶ values

RocketMQ's JSON library (fastjson) writes integer keys without quotes, which no JSON parser takes.
Both forms are read, and what RocketMQ reads is written in its form. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from storage_engine.errors import StoreCorrupt

ValueT = TypeVar("ValueT")
# A string, which is left alone, or an integer between a brace or a comma and a colon.
_STRING_OR_KEY: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?[0-9]+)(?=\s*:)')


def decode(content: bytes, kind: type[ValueT], path: Path) -> ValueT:
    """The value that a file's content stands for.

    Raises ``StoreCorrupt``: it is no JSON, or not of that kind; ``path`` is named.
    """
    try:
        try:
            return msgspec.json.decode(content, type=kind, strict=False)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.json.decode(quoted(content), type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise StoreCorrupt(f"cannot read {path}: {exc}") from exc


def convert(value: Any, kind: type[ValueT], path: Path) -> ValueT:  # Any: as JSON has it
    """What ``decode`` gave, as another type. Raises ``StoreCorrupt``."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise StoreCorrupt(f"cannot read {path}: {exc}") from exc


def quoted(content: bytes) -> bytes:
    """The same JSON with quotes around keys that are integers."""
    return _STRING_OR_KEY.sub(_quoted, content)


def unknown_fields(content: bytes, known: Iterable[str], path: Path) -> dict[str, msgspec.Raw]:
    """The fields of a file that this engine has no use for, to be written again as they are.

    Raises ``StoreCorrupt``.
    """
    fields = decode(content, dict[str, msgspec.Raw], path)
    return {name: fields[name].copy() for name in fields.keys() - set(known)}


def integer_table(table: Mapping[int, int]) -> bytes:
    """As RocketMQ writes it: ``{0:10,1:5}``."""
    return b"{%b}" % b",".join([b"%d:%d" % pair for pair in table.items()])


def _quoted(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else b'%b"%b"' % (found[1], found[2])
