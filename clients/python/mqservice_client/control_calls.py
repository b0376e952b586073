"""Calls of the control plane without I/O, and waiting for a task.

    path, places, query, body ─▶ [control_request] ─▶ Request ─▶ (Caller) ─▶ a struct of api_types

Arguments are what Python has: ``Duration``, ``datetime`` with a time zone, structs and mappings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, overload
from uuid import uuid4

import msgspec

from .caller import Caller
from .http_calls import JSON_TYPE, Request, decode, segment, with_query
from .values import milliseconds, rfc3339

T = TypeVar("T")
UNSET: Final = msgspec.UNSET
Unset = msgspec.UnsetType
POLL_FIRST_S: Final = 0.1
POLL_LONGEST_S: Final = 2.0
_PYTHON_TYPES: Final = (datetime, timedelta)


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message's body in the one of three forms that holds it unchanged."""

    body: str | None = None
    body_json: msgspec.Raw = msgspec.Raw()
    body_b64: bytes | None = None

    @property
    def content(self) -> bytes:
        """The body as it was sent."""
        if self.body is not None:
            return self.body.encode()
        return bytes(self.body_json) if self.body_b64 is None else self.body_b64

    @overload
    def json(self) -> Any: ...  # Any: whatever the producer wrote

    @overload
    def json(self, kind: type[T]) -> T: ...

    def json(self, kind: Any = Any) -> Any:  # Any: see the overloads
        """The body read as JSON. Raises msgspec.DecodeError."""
        return msgspec.json.decode(self.content, type=kind)


class _TaskState(msgspec.Struct):
    finished_at: str | None


def control_request(
    root: str,
    verb: str,
    path: str,
    *,
    places: Mapping[str, str | int] | None = None,
    query: Mapping[str, object] | None = None,
    body: Mapping[str, object] | None = None,
    key: str | None = None,
    if_match: str | None = None,
) -> Request:
    """One call.

    Args:
        root: what stands for ``/v1/ns/{ns}``.
        body: without what is unset. A POST leaves None out too; others change settings, where None
            has a meaning.
        key: makes a POST safe to repeat.
        if_match: the ``etag`` that what is changed must have.

    Raises:
        UsageError: a duration or a time makes no sense.
    """
    whole = path.replace("/v1/ns/{ns}", root)
    for name, value in (places or {}).items():
        whole = whole.replace(f"{{{name}}}", segment(str(value)))
    headers = {} if body is None else {"content-type": JSON_TYPE}
    if key is not None:
        headers["idempotency-key"] = key
    if if_match is not None:
        headers["if-match"] = if_match
    given = {
        name: _plain(name, value)
        for name, value in (body or {}).items()
        if value is not UNSET and not (value is None and verb == "POST")
    }
    return Request(
        method=verb,
        path=with_query(whole, {name: _plain(name, each) for name, each in (query or {}).items()}),
        content=None if body is None else msgspec.json.encode(given),
        headers=headers,
    )


def new_key() -> str:
    """An idempotency key that nobody else uses."""
    return uuid4().hex


def is_repeatable(request: Request) -> bool:
    """Whether sending it twice does no harm, so that an unknown outcome is tried again."""
    if "idempotency-key" in request.headers:
        return True
    # The second time, a change would find that its own first time came between.
    return request.method == "GET" or (
        request.method == "PUT" and "if-match" not in request.headers
    )


async def wait_until_finished(caller: Caller, request: Request, kind: type[T]) -> T:
    """The task that ``request`` reads, once it has ended."""
    wait_s = POLL_FIRST_S
    while True:
        response = await caller.call(request, is_repeatable=True)
        if decode(response, _TaskState).finished_at is not None:
            return decode(response, kind)
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, POLL_LONGEST_S)


def _plain(name: str, value: object) -> object:
    """A value as the API writes it."""
    if isinstance(value, datetime):
        return rfc3339(value, name)
    if isinstance(value, timedelta):
        return f"{milliseconds(value, name)}ms"
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value, builtin_types=_PYTHON_TYPES)
    if isinstance(value, Mapping):
        return {key: _plain(str(key), each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(name, each) for each in value]
    return value
