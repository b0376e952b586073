"""A message body as pages show it: a tree, text, bytes, or one line of a table.

    message of the API ──▶ body_of ──▶ schema_tree_of, where its topic has a schema that matches
                              ├──────▶ text_of ──▶ tree_of JSON, preview
                              ├──────▶ msgpack_tree_of, where the bytes are not text
                              └──────▶ hex_of

A body is what a tenant wrote: it is shown as text only, and downloaded as bytes of no type. What
masking hides of a body is hidden before: a schema is not even tried where fields are, since the
names of its fields are the schema's and not the body's.
"""

from __future__ import annotations

import base64
import enum
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
from django.utils.translation import gettext as _

from mqservice.accounts.models import Namespace
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.limits import NESTING_MAX, VALUES_MAX
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.queries import schemas_of
from mqservice.topic_schemas.values import Figure

PREVIEW_CHARS: Final = 160
SHOWN_BYTES_MAX: Final = 64 * 1024
TREE_NODES_MAX: Final = VALUES_MAX
LEAF_CHARS_MAX: Final = 4 * 1024  # of one value or key of a tree
TREE_CHARS_MAX: Final = 128 * 1024  # of all of them
MSGPACK_BYTES_MAX: Final = 1024 * 1024  # a larger one is bytes alone: a page waits for decoding
HIDDEN: Final = "body"
_BYTES_SHOWN_MAX: Final = 64  # of one value
# How maps and arrays of MessagePack begin; other values alone are more likely something else.
_MSGPACK_BEGINNINGS: Final = frozenset([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
_HEX_ROW: Final = 16
_HEX_BYTES_MAX: Final = 8 * 1024
Stored = dict[str, Any]  # Any: a message of the API's answer, see StoredMessage


class TreeForm(enum.StrEnum):
    """What a body is that is shown as a tree."""

    JSON = "JSON"
    MSGPACK = "MessagePack"
    AVRO = "Avro"
    PROTOBUF = "Protobuf"


FORMS: Final = {SchemaKind.AVRO: TreeForm.AVRO, SchemaKind.PROTOBUF: TreeForm.PROTOBUF}


def encoding_of(schema: TopicSchema | None) -> str:
    """What bodies of a topic are by its schema: ``Protobuf · shop.Order``; empty without one."""
    if schema is None:
        return ""
    form = FORMS[SchemaKind(schema.kind)].value
    return f"{form} · {schema.message}" if schema.message else form


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBody:
    """What the viewer shows of a body. ``text`` is None where the bytes are not UTF-8.
    ``tree`` is the decoded value, from what ``tree_form`` says.

    ``schema_fault``: why the schema of the topic does not match; empty where it does, or there is
    none. ``masked``: ``body`` where masking hides all of it, ``fields`` where values in it, else
    empty.
    """

    size_bytes: int
    text: str | None
    is_cut: bool
    tree: list[dict[str, object]] | None
    tree_form: str
    hex: str
    is_hex_cut: bool
    schema_fault: str = ""
    masked: str = ""

    @property
    def is_hidden(self) -> bool:
        return self.masked == HIDDEN


def shown_body(message: Stored, schema: TopicSchema | None) -> ShownBody:
    """``schema``: that of the topic which the message was produced to."""
    if is_hidden(message):
        return ShownBody(
            size_bytes=message["body_bytes"],
            text=None,
            is_cut=False,
            tree=None,
            tree_form="",
            hex="",
            is_hex_cut=False,
            masked=HIDDEN,
        )
    body = body_of(message)
    text = text_of(body)
    masked, form = message.get("masked", ""), encoding_of(schema)
    tree, fault = None, ""
    if schema is not None and not masked:
        tree, fault = schema_tree_of(body, schema)
    if tree is None:
        form = TreeForm.JSON if text is not None else TreeForm.MSGPACK
        tree = tree_of(text) if text is not None else msgpack_tree_of(body)
    return ShownBody(
        size_bytes=len(body),
        text=None if text is None else text[:SHOWN_BYTES_MAX],
        is_cut=len(body) > SHOWN_BYTES_MAX,
        tree=tree,
        tree_form="" if tree is None else form,
        hex=hex_of(body[:_HEX_BYTES_MAX]),
        is_hex_cut=len(body) > _HEX_BYTES_MAX,
        schema_fault=fault,
        masked=masked,
    )


def is_hidden(message: Stored) -> bool:
    """Whether masking hides all of the body from who looks; see ``masking.mask_response``."""
    return bool(message.get("masked") == HIDDEN)


def body_of(message: Stored) -> bytes:
    """The bytes as they are stored, whichever form the API chose; none of a hidden body."""
    if "body_text" in message:  # JSON; see ``asking.Answer``
        return str(message["body_text"]).encode()
    if "body_b64" in message:
        return base64.b64decode(message["body_b64"])
    return str(message.get("body", "")).encode()


def text_of(body: bytes) -> str | None:
    """None for what is no UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def previews(namespace: Namespace, messages: list[Stored], topic: str = "") -> list[str]:
    """The beginnings of bodies, for one line of a table each. One query.

    Args:
        topic: that of all; empty where each message says its own.
    """
    topics = [topic or str(message.get("topic") or "") for message in messages]
    schemas = schemas_of(namespace, topics)
    return [
        preview(message, schemas.get(name)) for message, name in zip(messages, topics, strict=True)
    ]


def preview(message: Stored, schema: TopicSchema | None) -> str:
    """The beginning of a body, for one line of a table."""
    if is_hidden(message):
        return _("hidden from your role")
    body = body_of(message)
    text = None
    if schema is not None and not message.get("masked"):
        text = schema.line_of(body)
    if text is None:
        text = text_of(body)
    if text is None:
        return _("binary")
    return " ".join(text[: 2 * PREVIEW_CHARS].split())[:PREVIEW_CHARS]


def tree_of(text: str) -> list[dict[str, object]] | None:
    """A JSON object or array as nested nodes; None for anything else, and for too many of them.
    Long values and keys are cut.

    A node has ``key``, and either ``kind`` and ``text``, or ``children`` and ``summary``.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
        return [_node("", value, _Budget())]
    except (ValueError, RecursionError, _TooMany):
        return None


def msgpack_tree_of(body: bytes) -> list[dict[str, object]] | None:
    """The same of a map or an array in MessagePack."""
    if not body or body[0] not in _MSGPACK_BEGINNINGS or len(body) > MSGPACK_BYTES_MAX:
        return None
    try:
        return [_node("", msgspec.msgpack.decode(body), _Budget())]
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError, _TooMany):
        return None


def schema_tree_of(body: bytes, schema: TopicSchema) -> tuple[list[dict[str, object]] | None, str]:
    """The same of a body that the schema decodes; or None, and why it does not."""
    decoded = schema.decode(body)
    if decoded.fault:
        return None, decoded.fault
    return [_node("", decoded.value, _Budget())], ""


class _TooMany(Exception):
    """A tree has more nodes than are shown, or they are nested deeper."""


@dataclass(slots=True)
class _Budget:
    """What a tree may still have."""

    node_count: int = TREE_NODES_MAX
    chars: int = TREE_CHARS_MAX

    def take_node(self, depth: int) -> None:
        """Raises _TooMany."""
        self.node_count -= 1
        if self.node_count < 0 or depth > NESTING_MAX:
            raise _TooMany

    def cut(self, text: str) -> str:
        """As much of a text as there is room for. Half of a character, which JSON may have but no
        page can, is shown as its escape.
        """
        part = text[: min(LEAF_CHARS_MAX, self.chars)]
        self.chars -= len(part)
        shown = part.encode(errors="backslashreplace").decode()
        return shown + "…" if len(part) < len(text) else shown


def _node(key: str, value: object, budget: _Budget, depth: int = 0) -> dict[str, object]:
    """Raises _TooMany."""
    budget.take_node(depth)
    key = budget.cut(key)
    if isinstance(value, dict):
        children = [_node(_key_of(name), each, budget, depth + 1) for name, each in value.items()]
        return {"key": key, "children": children, "summary": f"{{{len(children)}}}"}
    if isinstance(value, list):
        children = [_node(str(at), each, budget, depth + 1) for at, each in enumerate(value)]
        return {"key": key, "children": children, "summary": f"[{len(children)}]"}
    kind = "text" if isinstance(value, str) and not isinstance(value, Figure) else "figure"
    return {"key": key, "kind": kind, "text": budget.cut(_shown(value))}


def _key_of(key: object) -> str:
    """A key of MessagePack may be any value."""
    return key if isinstance(key, str) else _shown(key)


def _shown(value: object) -> str:
    """A value as JSON writes it; what JSON does not have in words."""
    if isinstance(value, Figure):
        return str(value)
    if isinstance(value, bytes):
        beginning = value[:_BYTES_SHOWN_MAX].hex(" ")
        return f"{beginning} …" if len(value) > _BYTES_SHOWN_MAX else beginning
    if isinstance(value, msgspec.msgpack.Ext):
        return f"ext {value.code}: {_shown(bytes(value.data))}"
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)


def hex_of(body: bytes) -> str:
    """Offset, 16 bytes, their characters; a line each."""
    lines = []
    for start in range(0, len(body), _HEX_ROW):
        row = body[start : start + _HEX_ROW]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{3 * _HEX_ROW - 1}}  {shown}")
    return "\n".join(lines)
