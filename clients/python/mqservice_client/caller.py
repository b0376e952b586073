"""REST calls of one client: sends requests, repeats what may be repeated, names what is unknown.

    Request ─▶ [Caller.call] ─▶ network ─▶ result, or one of ``errors``

Nothing is sent twice unless that is safe: the request was never sent, the service promised that it
did nothing, it only reads, or it has an idempotency key.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TypeVar

from .backoff import Backoff
from .errors import (
    ClientClosed,
    MQError,
    OutcomeUnknown,
    RequestRejected,
    ResponseMalformed,
    Unreachable,
)
from .http_calls import Request, Response, decode, raise_for
from .messages import log
from .network import Network, NoResponse, NotSent

T = TypeVar("T")


class Caller:
    """Requests of one client to one service."""

    def __init__(self, network: Network, base_url: str, timeout_ms: int, random: Random) -> None:
        self.network = network
        self.base_url = base_url
        self.timeout_ms = timeout_ms
        self._random = random
        self._backoff = Backoff()
        self._is_closed = False

    async def fetch(self, request: Request, kind: type[T]) -> T:
        """The document of the response."""
        return decode(await self.call(request, is_repeatable=request.method == "GET"), kind)

    async def execute(self, request: Request) -> None:
        """A request whose response says nothing."""
        await self.call(request, is_repeatable=False)

    async def call(
        self, request: Request, *, is_repeatable: bool, timeout_ms: int | None = None
    ) -> Response:
        """Send until there is an outcome or ``timeout_ms`` is over, then raise the last error.

        ``is_repeatable``: also after an attempt whose outcome is unknown.
        """
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        attempt = 0
        while True:
            left_ms = max(1, round((deadline - loop.time()) * 1000))
            try:
                return await self.once(request, left_ms)
            except MQError as exc:
                attempt += 1
                may_repeat = exc.retryable and (exc.stored is False or is_repeatable)
                wait_ms = self._backoff.wait_ms(
                    attempt, self._random, floor_ms=exc.retry_after_ms or 0
                )
                if not may_repeat or loop.time() + wait_ms / 1000 >= deadline:
                    raise
                log.info(
                    "A request is tried again",
                    extra={"action": "request_retried", "wait_ms": wait_ms, "error": str(exc)},
                )
                await asyncio.sleep(wait_ms / 1000)

    async def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        await self.network.close()

    async def once(self, request: Request, timeout_ms: int) -> Response:
        """One attempt. Raises Unreachable, OutcomeUnknown, RequestRejected, ResponseMalformed."""
        if self._is_closed:
            raise closed_meanwhile()
        what = f"{request.method} {request.path.partition('?')[0]}"
        try:
            response = await self.network.exchange(request, timeout_ms)
        except NotSent as exc:
            raise Unreachable(self.base_url, str(exc)) from exc
        except NoResponse as exc:
            raise OutcomeUnknown(what, str(exc)) from exc
        try:
            raise_for(response)
        except RequestRejected as exc:
            if exc.code == "OUTCOME_UNKNOWN" or (exc.status >= 500 and exc.stored is None):
                is_promised = exc.code in ("ENGINE_UNAVAILABLE", "METADATA_UNAVAILABLE")
                if is_promised or request.method == "GET":
                    exc.stored = False
                    raise
                raise OutcomeUnknown(what, str(exc)) from exc
            raise
        except ResponseMalformed as exc:
            raise OutcomeUnknown(what, str(exc)) from exc
        return response


def closed_meanwhile() -> ClientClosed:
    """What became of the call, nobody knows."""
    error = ClientClosed("the client was closed while the call was under way")
    error.stored = None
    return error
