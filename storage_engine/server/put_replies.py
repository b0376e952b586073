"""Replies to the PUT frames of one connection; those of single records are sent together.

    connection ── frames ──▶ [PutReplies] ── one put ──▶ Store
    connection ◀── reply frame for each ──┘   when the disk has it, or at once

Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage_engine.errors import StoreError
from storage_engine.puts.put_path import Appended
from storage_engine.store import Store
from storage_engine.wire.frames import Frame, encode_error, encode_put_reply
from storage_engine.wire.operations import Op

Reply = Callable[[int, int, bytes, int], None]  # op, request id, payload, status


class PutReplies:
    """See the module's docstring."""

    def __init__(self, store: Store, reply: Reply) -> None:
        self._store = store
        self._reply = reply

    def put(self, frame: Frame) -> None:
        """Raises ``StoreError`` when nothing of it was stored."""
        self._store.put(frame.payload, partial(self._answered, frame.request_id))

    def put_singles(self, frames: list[Frame]) -> None:
        """Frames of one record each, which go into the log together."""
        request_ids = [frame.request_id for frame in frames]
        payload = b"".join([frame.payload for frame in frames])
        try:
            self._store.put(payload, partial(self._singles_answered, request_ids))
        except StoreError as exc:
            for request_id in request_ids:
                self._reply(Op.PUT, request_id, encode_error(exc), exc.code)

    def _answered(
        self, request_id: int, appended: Appended, store_timestamp_ms: int, error: StoreError | None
    ) -> None:
        if error is not None:
            self._reply(Op.PUT, request_id, encode_error(error), error.code)
        else:
            content = encode_put_reply(store_timestamp_ms, appended.offsets, appended.due_ms)
            self._reply(Op.PUT, request_id, content, 0)

    def _singles_answered(
        self,
        request_ids: list[int],
        appended: Appended,
        store_timestamp_ms: int,
        error: StoreError | None,
    ) -> None:
        if error is not None:
            for request_id in request_ids:
                self._reply(Op.PUT, request_id, encode_error(error), error.code)
            return
        offsets = iter(appended.offsets)
        due_ms = appended.due_ms
        for at, request_id in enumerate(request_ids):
            place = [next(offsets), next(offsets)]
            due = {0: due_ms[at]} if at in due_ms else {}
            content = encode_put_reply(store_timestamp_ms, place, due)
            self._reply(Op.PUT, request_id, content, 0)
