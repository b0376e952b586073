"""Requests of one connection that need messages which only the bucket has.

    frame ── NotLocal ──▶ [AbsentRequests] ── fetched ──▶ served again ── a reply, or NotLocal again
                                └── the bucket does not answer ──▶ OldMessagesUnavailable

A request changes nothing before it has read what it needs, so it is served as if it had come later.
The connection serves others meanwhile. Loop thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from storage_engine.errors import NotLocal, OldMessagesUnavailable, StoreError
from storage_engine.wire.frames import Frame

_ROUNDS_MAX: Final = 64  # of one request: it needs old messages of very many places
_REQUESTS_MAX: Final = 1_024  # of one connection


class AbsentRequests:
    """See the module's docstring. ``serve`` raises ``StoreError``; ``fail`` replies with one."""

    def __init__(
        self, serve: Callable[[Frame], None], fail: Callable[[Frame, StoreError], None]
    ) -> None:
        self._serve = serve
        self._fail = fail
        self._waiting: dict[int, tuple[asyncio.Task[None], Frame]] = {}  # by request id

    def wait(self, frame: Frame, absent: NotLocal) -> None:
        """Serve it again once that is here; replies if it cannot be."""
        if frame.request_id in self._waiting or len(self._waiting) >= _REQUESTS_MAX:
            self._fail(frame, absent)
            return
        task = asyncio.ensure_future(self._serve_later(frame, absent))
        self._waiting[frame.request_id] = task, frame

    async def _serve_later(self, frame: Frame, absent: NotLocal) -> None:
        error: StoreError = OldMessagesUnavailable(
            f"the request needs old messages of more than {_ROUNDS_MAX} places that only the "
            "bucket has; try again, or ask for fewer"
        )
        for _ in range(_ROUNDS_MAX):
            try:
                await absent.fetch()
                self._serve(frame)
            except NotLocal as exc:
                absent = exc
                continue
            except StoreError as exc:
                error = exc
                break
            except OSError as exc:
                error = OldMessagesUnavailable(
                    f"old messages could not be kept on the local disk: {exc.strerror}"
                )
                break
            del self._waiting[frame.request_id]
            return
        del self._waiting[frame.request_id]
        self._fail(frame, error)

    def cancel(self, request_id: int) -> None:
        """Reply without waiting any longer."""
        self.fail_those(
            lambda frame: frame.request_id == request_id,
            OldMessagesUnavailable("the request was cancelled while it waited for the bucket"),
        )

    def fail_those(self, is_wanted: Callable[[Frame], bool], error: StoreError) -> None:
        """Reply to these without waiting any longer: what they want does not matter any more."""
        wanted = [each for each, (_, frame) in self._waiting.items() if is_wanted(frame)]
        for request_id in wanted:
            task, frame = self._waiting.pop(request_id)
            task.cancel()
            self._fail(frame, error)

    def cancel_all(self) -> None:
        """Nobody is there any more to reply to."""
        waiting, self._waiting = self._waiting, {}
        for task, _ in waiting.values():
            task.cancel()
