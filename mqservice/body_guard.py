"""Limits the size, duration and encoding of a request body before Django reads it.

    server ── receive ──▶ [BodyGuard] ──▶ Django
                              └─ too large, too slow, encoded ──▶ Django hears that the client is
                                 gone; ``refusal`` says what the client is told instead

Django writes what is larger than memory takes to the disk before it looks at anything.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mqservice.delivery.http import Message, Receive, Scope
from mqservice.delivery.limits import BODY_ARRIVAL_MS_MAX
from mqservice.lib.problem import Problem

_GONE: Final[Message] = {"type": "http.disconnect"}
_LENGTH_DIGITS_MAX: Final = 19


class BodyGuard:
    """See the module's docstring. Of one request."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        bytes_max: int,
        arrival_ms_max: int = BODY_ARRIVAL_MS_MAX,
    ) -> None:
        self._receive = receive
        self._bytes_max = bytes_max
        self._arrival_ms_max = arrival_ms_max
        self._deadline_s: float | None = None
        self._is_whole = False
        self._total_bytes = 0
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self.refusal = self._refusal_of(headers)

    async def receive(self) -> Message:
        """The server's next message, or that the client is gone."""
        if self.refusal is not None:
            return _GONE
        if self._is_whole:
            return await self._receive()
        loop = asyncio.get_running_loop()
        if self._deadline_s is None:
            self._deadline_s = loop.time() + self._arrival_ms_max / 1_000
        try:
            async with asyncio.timeout_at(self._deadline_s):
                message = await self._receive()
        except TimeoutError:
            self.refusal = Problem.of(
                "REQUEST_TIMEOUT", f"the body did not arrive within {self._arrival_ms_max} ms"
            )
            return _GONE
        self._total_bytes += len(message.get("body", b""))
        if self._total_bytes > self._bytes_max:
            self.refusal = self._too_large("more is")
            return _GONE
        self._is_whole = not message.get("more_body", False)
        return message

    def _refusal_of(self, headers: dict[bytes, bytes]) -> Problem | None:
        if headers.get(b"content-encoding", b"identity") != b"identity":
            return Problem.of("UNSUPPORTED_MEDIA_TYPE", "send the body without a content-encoding")
        declared = headers.get(b"content-length", b"0")[:_LENGTH_DIGITS_MAX]
        if declared.isdigit() and int(declared) > self._bytes_max:
            return self._too_large(f"{declared.decode()} bytes are")
        return None

    def _too_large(self, what: str) -> Problem:
        return Problem.of(
            "BODY_TOO_LARGE", f"{what} more than the {self._bytes_max} bytes allowed here"
        )
