"""REST without I/O: requests as values, responses to results or errors.

    arguments ─▶ Request ─▶ (network) ─▶ Response ─▶ decode, raise_for, parse_batch

The async client sends these; so does nothing else, hence a change of the API is a change here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from .errors import (
    MQError,
    OutcomeUnknown,
    RequestRejected,
    ResponseMalformed,
    UsageError,
    rejected,
)
from .values import BodyForm, body_form

JSON_TYPE: Final = "application/json"
PACK_TYPE: Final = "application/msgpack"
RAW_TYPE: Final = "application/octet-stream"
DETAIL_CHARS_MAX: Final = 300
# From this size a body travels raw, where base64 and JSON do not inflate it.
RAW_BODY_BYTES_MIN: Final = 64 * 1024
# From this size it is not worth while to wait for others and share a request with them.
ALONE_BYTES_MIN: Final = 512 * 1024
T = TypeVar("T")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """``wait_ms``: how much longer than usual the service may take, as a receive does."""

    method: str
    path: str
    content: bytes | None = None
    headers: dict[str, str] = {}
    wait_ms: int = 0


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """``headers`` have lower-case names."""

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = {}


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message was stored.

    ``offset`` is None for one that is delivered later, which has a ``recall_handle`` instead.
    ``durability``: "synced" is on disk; "buffered" will be within 200 ms; "replicated" is in the
    replicated log. ``duplicate``: the key was used before, and this is the first message. Times are
    RFC 3339 texts.
    """

    id: str
    topic: str = ""
    queue: int
    offset: int | None
    stored_at: str = ""
    durability: str = ""
    deliver_at: str | None = None
    recall_handle: str | None = None
    duplicate: bool = False


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to produce, checked and encoded but for its form on the wire.

    ``trace``: a trace context, which becomes properties.
    """

    body: BodyForm
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    queue: int | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None
    trace: dict[str, str] = {}


class _Form(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The JSON object of a message. Exactly one of the bodies is set."""

    body: str | None = None
    body_json: msgspec.Raw | None = None
    body_b64: str | None = None
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    queue: int | None = None
    delay_level: int | None = None
    delay_ms: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None


class _BatchItem(msgspec.Struct, kw_only=True):
    index: int
    status: int = 0
    id: str | None = None
    queue: int = -1
    offset: int | None = None
    stored_at: str = ""
    durability: str = ""
    deliver_at: str | None = None
    recall_handle: str | None = None
    duplicate: bool = False
    code: str = ""
    detail: str = ""
    retryable: bool = False
    stored: bool | None = None
    retry_after_ms: int | None = None


class _BatchResponse(msgspec.Struct):
    results: list[_BatchItem]


class _ProblemItem(msgspec.Struct):
    pointer: str = ""
    code: str = ""
    detail: str = ""


class _Problem(msgspec.Struct, kw_only=True):
    code: str
    detail: str = ""
    retryable: bool = False
    retry_after_ms: int | None = None
    stored: bool | None = None
    request_id: str = ""
    errors: list[_ProblemItem] = []


_encode = msgspec.json.Encoder().encode
_decode_problem = msgspec.json.Decoder(_Problem).decode
_decode_batch = msgspec.json.Decoder(_BatchResponse).decode


def namespace_root(namespace: str) -> str:
    return f"/v1/ns/{segment(namespace)}"


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def with_query(path: str, params: Mapping[str, object]) -> str:
    """The path with those parameters that are given; True is ``true``."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in params.items()
        if value is not None
    }
    return f"{path}?{urlencode(given)}" if given else path


def outgoing(
    body: object,
    *,
    tag: str | None = None,
    keys: str | Sequence[str] = (),
    message_group: str | None = None,
    properties: Mapping[str, str] | None = None,
    queue: int | None = None,
    delay_level: int | None = None,
    delay_ms: int | None = None,
    deliver_at: str | None = None,
    dedup_id: str | None = None,
) -> Outgoing:
    """Raises UsageError for a body that is empty or that JSON cannot express."""
    form = body_form(body)
    if not form.size:
        raise UsageError("the body is empty; a message needs at least one byte")
    return Outgoing(
        body=form,
        tag=tag,
        keys=[keys] if isinstance(keys, str) else list(keys),
        message_group=message_group,
        properties=dict(properties) if properties else {},
        queue=queue,
        delay_level=delay_level,
        delay_ms=delay_ms,
        deliver_at=deliver_at,
        dedup_id=dedup_id,
    )


def encode_message(message: Outgoing) -> bytes:
    """The JSON object of one message."""
    form = _Form(
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        properties={**message.properties, **message.trace},
        queue=message.queue,
        delay_level=message.delay_level,
        delay_ms=message.delay_ms,
        deliver_at=message.deliver_at,
        dedup_id=message.dedup_id,
    )
    body = message.body
    if body.json is not None:
        form.body_json = msgspec.Raw(body.json)
    elif body.text is not None:
        form.body = body.text
    else:
        raw = body.raw or b""
        try:
            form.body = raw.decode()
        except UnicodeDecodeError:
            form.body_b64 = base64.b64encode(raw).decode()
    try:
        return _encode(form)
    except (TypeError, UnicodeEncodeError) as exc:
        raise UsageError(f"the message cannot be written as JSON: {exc}") from exc


def send_request(
    root: str,
    topic: str,
    message: Outgoing,
    *,
    idempotency_key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    """Produce one message; large bytes go raw."""
    extra = {name.lower(): value for name, value in (headers or {}).items()}
    if idempotency_key is not None:
        extra["idempotency-key"] = _printable("idempotency_key", idempotency_key)
    path = f"{root}/topics/{segment(topic)}/messages"
    raw = message.body.raw
    if raw is not None and len(raw) >= RAW_BODY_BYTES_MIN and _fits_headers(message):
        return Request(
            method="POST", path=path, content=raw, headers={**_raw_headers(message), **extra}
        )
    extra.setdefault("content-type", JSON_TYPE)
    return Request(method="POST", path=path, content=encode_message(message), headers=extra)


def is_large(message: Outgoing) -> bool:
    """Whether it is better sent alone and raw than in a batch."""
    raw = message.body.raw
    return raw is not None and len(raw) >= ALONE_BYTES_MIN and _fits_headers(message)


def batch_request(root: str, topic: str, forms: Sequence[bytes]) -> Request:
    """Produce 1 to 1,000 messages, each encoded by ``encode_message``; one is no batch."""
    path = f"{root}/topics/{segment(topic)}/messages"
    return Request(
        method="POST",
        path=path if len(forms) == 1 else f"{path}:batch",
        content=forms[0] if len(forms) == 1 else b"[" + b",".join(forms) + b"]",
        headers={"content-type": JSON_TYPE},
    )


def parse_batch(response: Response, topic: str, count: int) -> list[Stored | MQError]:
    """A result for each message, in order. Raises RequestRejected, ResponseMalformed."""
    if count == 1:
        return [decode(response, Stored)]
    raise_for(response)
    try:
        items = _decode_batch(response.content).results
    except msgspec.DecodeError as exc:
        raise _malformed(response, exc) from exc
    if [item.index for item in items] != list(range(count)):
        raise ResponseMalformed(f"{count} messages were sent, the response has {len(items)}")
    return [_result_of(item, topic) for item in items]


def decode(response: Response, kind: type[T]) -> T:
    """The document of a successful response. Raises RequestRejected, ResponseMalformed."""
    raise_for(response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as exc:
        raise _malformed(response, exc) from exc


def raise_for(response: Response) -> None:
    """Raises RequestRejected unless the response is a success."""
    if not 200 <= response.status < 300:
        raise rejection_of(response.status, response.content)


def rejection_of(status: int, content: bytes) -> RequestRejected:
    """The error of a response that is no success; what is no problem document is quoted."""
    problem = problem_of(content)
    if problem is None:
        text = " ".join(content.decode("utf-8", "replace").split())[:DETAIL_CHARS_MAX]
        return rejected(
            status=status,
            code=f"HTTP_{status}",
            detail=text or "no explanation given",
            retryable=status in (408, 429, 502, 503, 504),
        )
    places = [f"{item.pointer} {item.detail or item.code}".strip() for item in problem.errors]
    return rejected(
        status=status,
        code=problem.code,
        detail=problem.detail + (f" ({'; '.join(places)})" if places else ""),
        retryable=problem.retryable,
        stored=problem.stored,
        retry_after_ms=problem.retry_after_ms,
        request_id=problem.request_id,
        errors=[(item.pointer, item.code, item.detail) for item in problem.errors],
    )


def problem_of(content: bytes) -> _Problem | None:
    """The service's own problem document; None for what somebody else answered."""
    try:
        return _decode_problem(content)
    except msgspec.DecodeError:
        return None


def faulty_indexes(error: RequestRejected) -> set[int]:
    """Which messages of a batch the pointers of a refusal name."""
    found = set()
    for pointer, _, _ in error.errors:
        first = pointer.split("/")[1:2]
        if first and first[0].isdecimal():
            found.add(int(first[0]))
    return found


def _result_of(item: _BatchItem, topic: str) -> Stored | MQError:
    if item.id is not None:
        return Stored(
            id=item.id,
            topic=topic,
            queue=item.queue,
            offset=item.offset,
            stored_at=item.stored_at,
            durability=item.durability,
            deliver_at=item.deliver_at,
            recall_handle=item.recall_handle,
            duplicate=item.duplicate,
        )
    if item.stored is None and item.code == "OUTCOME_UNKNOWN":
        return OutcomeUnknown("a message of a batch", item.detail)
    return rejected(
        status=item.status,
        code=item.code,
        detail=item.detail,
        retryable=item.retryable,
        stored=item.stored,
        retry_after_ms=item.retry_after_ms,
    )


def _malformed(response: Response, exc: Exception) -> ResponseMalformed:
    return ResponseMalformed(
        f"a response of {len(response.content)} bytes is not what the API promises: {exc}"
    )


def _printable(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable() and value.strip()):
        raise UsageError(f"{name} must be 1 to 128 visible ASCII characters, found {value!r}")
    return value


def _raw_headers(message: Outgoing) -> dict[str, str]:
    headers = {
        **message.trace,
        "content-type": RAW_TYPE,
        "mq-tag": message.tag,
        "mq-keys": ",".join(message.keys) or None,
        "mq-message-group": message.message_group,
        "mq-queue": None if message.queue is None else str(message.queue),
        "mq-delay": None if message.delay_ms is None else f"{message.delay_ms}ms",
        "mq-delay-level": None if message.delay_level is None else str(message.delay_level),
        "mq-deliver-at": message.deliver_at,
        "mq-dedup-id": message.dedup_id,
    }
    return {name: value for name, value in headers.items() if value is not None}


def _fits_headers(message: Outgoing) -> bool:
    """Whether all but the body can travel as header lines unchanged."""
    texts = [message.tag or "", message.message_group or "", message.dedup_id or "", *message.keys]
    return not message.properties and all(
        text.isascii() and text.isprintable() and text == text.strip() and "," not in text
        for text in texts
    )
