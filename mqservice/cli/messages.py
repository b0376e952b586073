"""Messages on the command line and their JSON forms; bodies are bytes, unchanged.

    text, file, line, NDJSON ─▶ Outgoing ─▶ sender
    consumer, REST ─▶ Delivered ─▶ encode_line ─▶ NDJSON on stdout ─▶ (parse_line ─▶ Outgoing)

A body travels in JSON as ``body`` when it is valid UTF-8 and as ``body_b64`` when it is not, so
what ``consume --output ndjson`` wrote can be given to ``produce`` again and arrives unchanged.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from mqservice.cli.errors import ResponseMalformed, UsageError


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to produce."""

    body: bytes
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    delay: str | None = None
    delay_level: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """A message shown to this client. One that was only browsed has 0 attempts."""

    id: str
    queue: int
    offset: int
    attempt: int = 0
    body: bytes
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    stored_at: str = ""
    topic: str = ""


class LineForm(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One NDJSON line. Fields up to ``stored_at`` are consume's; produce ignores them."""

    id: str = ""
    topic: str = ""
    queue: int = -1
    offset: int = -1
    attempt: int = 0
    stored_at: str = ""
    body: str | None = None
    body_json: msgspec.Raw = msgspec.Raw()
    body_b64: str | None = None
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    delay: str | None = None
    delay_level: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None


_form_encoder = msgspec.json.Encoder()
_line_decoder = msgspec.json.Decoder(LineForm)


def encode_line(message: Delivered, *, topic: str) -> bytes:
    """One NDJSON line, with its newline."""
    text, b64 = split_body(message.body)
    form = LineForm(
        id=message.id,
        topic=topic,
        queue=message.queue,
        offset=message.offset,
        attempt=message.attempt,
        stored_at=message.stored_at,
        body=text,
        body_b64=b64,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        properties=message.properties,
    )
    return _form_encoder.encode(form) + b"\n"


def parse_line(line: bytes, *, line_number: int) -> Outgoing:
    """The message of one NDJSON line.

    Raises:
        UsageError: not an object of this form; the text names the line, counted from 1.
    """
    try:
        form = _line_decoder.decode(line)
        body = join_body(form.body, form.body_json, form.body_b64)
    except (msgspec.DecodeError, ValueError) as exc:
        hint = "" if line.lstrip()[:1] == b"{" else "; use --format lines to send lines as they are"
        raise UsageError(f"line {line_number}: {exc}{hint}") from exc
    return Outgoing(
        body=body,
        tag=form.tag,
        keys=form.keys,
        message_group=form.message_group,
        properties=form.properties,
        delay=form.delay,
        delay_level=form.delay_level,
        deliver_at=form.deliver_at,
        dedup_id=form.dedup_id,
    )


def split_body(body: bytes) -> tuple[str | None, str | None]:
    """(text, None) for valid UTF-8, else (None, base64)."""
    try:
        return body.decode("utf-8"), None
    except UnicodeDecodeError:
        return None, base64.b64encode(body).decode("ascii")


def join_body(text: str | None, raw_json: msgspec.Raw, b64: str | None) -> bytes:
    """The bytes of whichever of the three forms is there; ValueError unless exactly one is.

    ``raw_json`` counts as the text it is written in, so spaces and key order stay.
    """
    raw = bytes(raw_json)
    if (text is not None) + bool(raw) + (b64 is not None) != 1:
        raise ValueError("give exactly one of body, body_json and body_b64")
    if text is not None:
        return text.encode("utf-8")
    if b64 is None:
        return raw
    try:
        return base64.b64decode(b64, validate=True)
    except binascii.Error as exc:
        raise ValueError(f"body_b64 is not base64: {exc}") from exc


class _StoredForm(msgspec.Struct, kw_only=True):
    """A message in the answer of a browse or a pull."""

    id: str
    queue: int
    offset: int
    body: str | None = None
    body_json: msgspec.Raw = msgspec.Raw()
    body_b64: str | None = None
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    stored_at: str = ""
    topic: str = ""


class _BrowsedForm(msgspec.Struct):
    messages: list[_StoredForm]
    next_cursor: str | None


class BrowsedPage(msgspec.Struct, frozen=True):
    """``next_cursor`` is None on the last page; other pages may be short."""

    messages: list[Delivered]
    next_cursor: str | None


class _PulledForm(msgspec.Struct):
    messages: list[_StoredForm]
    next_offset: int


class PulledPage(msgspec.Struct, frozen=True):
    """What one queue has from an offset on; reading goes on at ``next_offset``."""

    messages: list[Delivered]
    next_offset: int


_browsed_decoder = msgspec.json.Decoder(_BrowsedForm)
_pulled_decoder = msgspec.json.Decoder(_PulledForm)
_stored_decoder = msgspec.json.Decoder(_StoredForm)


def parse_browsed(content: bytes) -> BrowsedPage:
    """One page of messages that were not delivered; raises ResponseMalformed."""
    try:
        page = _browsed_decoder.decode(content)
        return BrowsedPage([_delivered(form) for form in page.messages], page.next_cursor)
    except (msgspec.DecodeError, ValueError) as exc:
        raise ResponseMalformed(
            f"the page of messages does not have the documented form: {exc}"
        ) from exc


def parse_pulled(content: bytes) -> PulledPage:
    """What a pull found; raises ResponseMalformed."""
    try:
        page = _pulled_decoder.decode(content)
        return PulledPage([_delivered(form) for form in page.messages], page.next_offset)
    except (msgspec.DecodeError, ValueError) as exc:
        raise ResponseMalformed(
            f"the response of a pull does not have the documented form: {exc}"
        ) from exc


def parse_stored(content: bytes) -> Delivered:
    """One message that was not delivered; raises ResponseMalformed."""
    try:
        return _delivered(_stored_decoder.decode(content))
    except (msgspec.DecodeError, ValueError) as exc:
        raise ResponseMalformed(f"the message does not have the documented form: {exc}") from exc


def _delivered(form: _StoredForm) -> Delivered:
    fields: dict[
        str, Any
    ] = {  # reason: a copy of a struct's own fields, types checked on the way in
        name: getattr(form, name) for name in form.__struct_fields__ if not name.startswith("body")
    }
    return Delivered(body=join_body(form.body, form.body_json, form.body_b64), **fields)
