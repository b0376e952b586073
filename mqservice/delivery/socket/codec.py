"""The two subprotocols as one interface: frames to structs and structs to frames.

    mq.v1.json      one object per frame, or several joined by newlines; ping and pong are {}
    mq.v1.msgpack   one array per frame, or an array of arrays; pong may be an empty array

A frame that is no JSON or MessagePack at all raises ``FrameBroken``: the connection cannot go on. A
command with a wrong field raises ``CommandRefused``, which carries the id so that it can be
answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, ClassVar, Final, Protocol

import msgspec

from mqservice.delivery.bodies import split_json_mark
from mqservice.delivery.decoding import Fault, fault_of
from mqservice.delivery.limits import (
    COUNTED_JSON_BYTES,
    COUNTED_JSON_COMMAS,
)
from mqservice.lib.problem import Problem
from mqservice.protocol import frames
from mqservice.protocol.frames import (
    FrameBroken,
    Subprotocol,
    array_length,
    is_array_of_arrays,
    json_form,
    pack_form,
    union_of,
)
from mqservice.protocol.limits import FRAME_COMMANDS_MAX, LIST_COUNT_HARD_MAX
from mqservice.store import Record, RecordColumns

_OPS: Final = {frame.op: frame.number for frame in frames.COMMANDS}
_OP_NUMBERS: Final = frozenset(_OPS.values())
_SHOWN_CHARS_MAX: Final = 40


class TooManyCommands(Exception):
    """A frame with more commands than it may carry."""

    def __init__(self) -> None:
        super().__init__(f"a frame carries at most {FRAME_COMMANDS_MAX} commands")


class CommandRefused(Exception):
    """A command that cannot be taken, to be answered by an err frame."""

    def __init__(self, command_id: int | None, code: str, detail: str) -> None:
        super().__init__(detail)
        self.id = command_id
        self.code = code
        self.detail = detail


class Codec(Protocol):
    """What a session needs of its subprotocol. Stateless."""

    name: ClassVar[str]
    Welcome: ClassVar[type[frames.Welcome]]
    Lost: ClassVar[type[frames.Lost]]
    Flow: ClassVar[type[frames.Flow]]
    Ok: ClassVar[type[frames.Ok]]
    Err: ClassVar[type[frames.Err]]
    Goaway: ClassVar[type[frames.Goaway]]
    ping: ClassVar[bytes]
    pong: ClassVar[bytes]

    def split(self, content: bytes) -> Sequence[bytes | msgspec.Raw]:
        """The commands of one frame, still encoded. Raises FrameBroken, TooManyCommands."""

    def decode(self, part: bytes | msgspec.Raw) -> frames.AnyCommand:
        """One command. Raises FrameBroken, CommandRefused."""

    def encode(self, frame: msgspec.Struct) -> bytes: ...

    def encode_messages(
        self, sid: int, tags: Sequence[int], records: Sequence[Record], attempts: Sequence[int]
    ) -> bytes:
        """A ``msgs`` frame; tags and attempts run along the records."""

    def encode_columns(
        self, sid: int, tags: Sequence[int], columns: RecordColumns, attempts: Sequence[int]
    ) -> bytes:
        """The same frame of messages that are alike."""


def encode_problem(codec: Codec, command_id: int | None, problem: Problem) -> bytes:
    """The ``err`` frame for a command."""
    return codec.encode(codec.Err(command_id, problem.code, problem.retryable, problem.detail))


class _JsonLists(msgspec.Struct):
    """The lists of a command, whose elements nobody has looked at."""

    id: int | None = None
    m: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    t: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _JsonEnvelope(msgspec.Struct):
    """As much of a refused command as is needed to answer it."""

    op: str = ""
    id: int | None = None


class JsonCodec:
    name: ClassVar[str] = Subprotocol.JSON
    Welcome: ClassVar[type[frames.Welcome]] = json_form(frames.Welcome)
    Lost: ClassVar[type[frames.Lost]] = json_form(frames.Lost)
    Flow: ClassVar[type[frames.Flow]] = json_form(frames.Flow)
    Ok: ClassVar[type[frames.Ok]] = json_form(frames.Ok)
    Err: ClassVar[type[frames.Err]] = json_form(frames.Err)
    Goaway: ClassVar[type[frames.Goaway]] = json_form(frames.Goaway)
    ping: ClassVar[bytes] = b"{}"
    pong: ClassVar[bytes] = b'{"op":"pong"}'

    _decode = msgspec.json.Decoder(union_of(frame.json for frame in frames.COMMANDS)).decode
    _decode_lists = msgspec.json.Decoder(_JsonLists).decode
    _decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
    _decode_envelope = msgspec.json.Decoder(_JsonEnvelope).decode
    _encode = msgspec.json.Encoder().encode
    _pong: ClassVar[frames.Pong] = json_form(frames.Pong)()

    def split(self, content: bytes) -> Sequence[bytes | msgspec.Raw]:
        if b"\n" not in content:
            return (content,)
        if content.count(b"\n", 0, -1) >= FRAME_COMMANDS_MAX:  # the last one may end the frame
            raise TooManyCommands
        return [line for line in content.split(b"\n") if line and not line.isspace()]

    def decode(self, part: bytes | msgspec.Raw) -> frames.AnyCommand:
        content = bytes(part)
        if len(content) > COUNTED_JSON_BYTES and content.count(b",") > COUNTED_JSON_COMMAS:
            self._check_lists(content)
        try:
            command: frames.AnyCommand = self._decode(part)
            return command
        except msgspec.ValidationError as exc:
            if bytes(part).strip() in (b"{}", b"{ }"):
                return self._pong
            raise self._refused(part, fault_of(exc)) from exc
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            if not bytes(part).strip():
                return self._pong
            raise FrameBroken(f"not JSON: {exc}") from exc

    def _check_lists(self, content: bytes) -> None:
        """Refuse a list that is far too long before an object is made for each of its elements."""
        try:
            lists = self._decode_lists(content)
            is_too_long = any(
                self._begins_too_long(each)
                or len(self._decode_elements(each)) > LIST_COUNT_HARD_MAX
                for each in (lists.m, lists.t)
                if each is not msgspec.UNSET
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # the decoder of commands finds it too, and says it better
        if is_too_long:
            detail = f"a list in a command has at most {LIST_COUNT_HARD_MAX} elements"
            raise CommandRefused(lists.id, "BAD_REQUEST", detail)

    def _begins_too_long(self, array: msgspec.Raw) -> bool:
        """Whether the beginning of an array has too many elements already, as far as can be told
        without reading all of it: millions of tiny ones take long even to be counted.
        """
        beginning = bytes(memoryview(array)[:COUNTED_JSON_BYTES])
        # Where one element ends, unless that comma is in a text.
        for end in (beginning.rfind(b","), beginning.rfind(b"},") + 1):
            try:
                if len(self._decode_elements(beginning[:end] + b"]")) > LIST_COUNT_HARD_MAX:
                    return True
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        return False

    def _refused(self, part: bytes | msgspec.Raw, fault: Fault) -> CommandRefused:
        try:
            envelope = self._decode_envelope(part)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise FrameBroken(f"not a command: {fault.detail}") from exc
        if envelope.op not in _OPS:
            return _unknown_op(envelope.id, repr(envelope.op[:_SHOWN_CHARS_MAX]))
        return _bad_field(envelope.id, fault)

    def encode(self, frame: msgspec.Struct) -> bytes:
        return self._encode(frame)

    def encode_messages(
        self, sid: int, tags: Sequence[int], records: Sequence[Record], attempts: Sequence[int]
    ) -> bytes:
        return self._encode(
            frames.JsonMessages(
                sid,
                [
                    _json_delivered(tag, record, attempt)
                    for tag, record, attempt in zip(tags, records, attempts, strict=True)
                ],
            )
        )

    def encode_columns(
        self, sid: int, tags: Sequence[int], columns: RecordColumns, attempts: Sequence[int]
    ) -> bytes:
        is_json, properties = split_json_mark(columns.properties)
        bodies: Iterable[str | bytes | msgspec.Raw]
        forms: Iterable[str]
        if is_json:
            bodies, forms = map(_raw_json, columns.bodies), repeat("json")
        else:
            bodies, forms = zip(*map(_text_or_bytes, columns.bodies), strict=True)
        heads = _heads(tags, columns, attempts, properties)
        delivered = list(map(frames.JsonDelivered, *heads, bodies, forms))
        return self._encode(frames.JsonMessages(sid, delivered))


def _json_delivered(tag: int, record: Record, attempt: int) -> frames.JsonDelivered:
    body: str | bytes | msgspec.Raw
    is_json, properties = split_json_mark(record.properties)
    if is_json:
        body, form = _raw_json(record.body), "json"
    else:
        body, form = _text_or_bytes(record.body)
    return frames.JsonDelivered(
        tag,
        record.message_id,
        record.queue_id,
        record.queue_offset,
        record.store_timestamp_ms,
        attempt,
        record.tag,
        record.keys,
        record.message_group,
        properties,
        body,
        form,
    )


def _raw_json(body: bytes) -> msgspec.Raw:
    """Newlines separate frames, and inside of JSON they are only ever blanks."""
    return msgspec.Raw(body.replace(b"\n", b" "))


def _text_or_bytes(body: bytes) -> tuple[str | bytes, str]:
    """A body that was not sent as JSON, and what it is called."""
    try:
        return body.decode(), "text"
    except UnicodeDecodeError:
        return body, "b64"


def _heads(
    tags: Sequence[int],
    columns: RecordColumns,
    attempts: Sequence[int],
    properties: dict[str, str],
) -> tuple[Iterable[Any], ...]:  # Any: a column for each field of ``frames.Delivered``
    return (
        tags,
        columns.message_ids,
        columns.queue_ids,
        columns.queue_offsets,
        columns.store_timestamps_ms,
        attempts,
        repeat(columns.tag),
        repeat([]),
        repeat(None),
        repeat(properties),
    )


class PackCodec:
    name: ClassVar[str] = Subprotocol.MSGPACK
    Welcome: ClassVar[type[frames.Welcome]] = pack_form(frames.Welcome)
    Lost: ClassVar[type[frames.Lost]] = pack_form(frames.Lost)
    Flow: ClassVar[type[frames.Flow]] = pack_form(frames.Flow)
    Ok: ClassVar[type[frames.Ok]] = pack_form(frames.Ok)
    Err: ClassVar[type[frames.Err]] = pack_form(frames.Err)
    Goaway: ClassVar[type[frames.Goaway]] = pack_form(frames.Goaway)
    ping: ClassVar[bytes] = b"\x91\x10"
    pong: ClassVar[bytes] = b"\x91\x11"

    _decode = msgspec.msgpack.Decoder(union_of(frame.pack for frame in frames.COMMANDS)).decode
    _decode_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
    _decode_int = msgspec.msgpack.Decoder(int).decode
    _decode_array = msgspec.msgpack.Decoder(list[Any]).decode
    _encode = msgspec.msgpack.Encoder().encode
    _pong: ClassVar[frames.Pong] = pack_form(frames.Pong)()

    def split(self, content: bytes) -> Sequence[bytes | msgspec.Raw]:
        if not is_array_of_arrays(content):
            return (content,)
        if array_length(content) > FRAME_COMMANDS_MAX:
            raise TooManyCommands
        try:
            return self._decode_parts(content)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise FrameBroken(f"not MessagePack: {exc}") from exc

    def decode(self, part: bytes | msgspec.Raw) -> frames.AnyCommand:
        try:
            command: frames.AnyCommand = self._decode(part)
            return command
        except msgspec.ValidationError as exc:
            if bytes(part) == b"\x90":
                return self._pong
            raise self._refused(part, fault_of(exc)) from exc
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            if not bytes(part):
                return self._pong
            raise FrameBroken(f"not MessagePack: {exc}") from exc

    def _refused(self, part: bytes | msgspec.Raw, fault: Fault) -> CommandRefused:
        try:
            parts = self._decode_parts(part)
            number = self._decode_int(parts[0])
        except (msgspec.DecodeError, IndexError, RecursionError) as exc:
            raise FrameBroken(f"not a command: {fault.detail}") from exc
        command_id = self._id_in(parts)
        if number not in _OP_NUMBERS:
            return _unknown_op(command_id, str(number))
        return _bad_field(command_id, fault)

    def _id_in(self, parts: list[msgspec.Raw]) -> int | None:
        try:
            return self._decode_int(parts[1])
        except (msgspec.DecodeError, IndexError):
            return None

    def encode(self, frame: msgspec.Struct) -> bytes:
        return self._encode(frame)

    def encode_messages(
        self, sid: int, tags: Sequence[int], records: Sequence[Record], attempts: Sequence[int]
    ) -> bytes:
        delivered = frames.PackDelivered
        return self._encode(
            frames.PackMessages(
                sid,
                [
                    delivered(
                        tag,
                        r.message_id,
                        r.queue_id,
                        r.queue_offset,
                        r.store_timestamp_ms,
                        attempt,
                        r.tag,
                        r.keys,
                        r.message_group,
                        split_json_mark(r.properties)[1] if r.properties else r.properties,
                        r.body,
                    )
                    for tag, r, attempt in zip(tags, records, attempts, strict=True)
                ],
            )
        )

    def encode_columns(
        self, sid: int, tags: Sequence[int], columns: RecordColumns, attempts: Sequence[int]
    ) -> bytes:
        _, properties = split_json_mark(columns.properties)
        heads = _heads(tags, columns, attempts, properties)
        delivered = list(map(frames.PackDelivered, *heads, columns.bodies))
        return self._encode(frames.PackMessages(sid, delivered))


def _unknown_op(command_id: int | None, shown: str) -> CommandRefused:
    known = ", ".join(f"{name} {number}" for name, number in _OPS.items())
    return CommandRefused(
        command_id, "UNKNOWN_OP", f"unknown op {shown}; the known ones are {known}"
    )


def _bad_field(command_id: int | None, fault: Fault) -> CommandRefused:
    where = f" at {fault.pointer}" if fault.pointer else ""
    return CommandRefused(command_id, "BAD_REQUEST", fault.detail + where)


CODECS: Final[dict[str, Codec]] = {codec.name: codec for codec in (JsonCodec(), PackCodec())}
