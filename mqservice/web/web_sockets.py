"""uvicorn's WebSockets, with a fast path for nearly every frame: a whole message.

bytes ──▶ [SocketProtocol] ── a frame that is a message ──▶ the application's queue
              │ part of a frame ──▶ kept until the rest of it has come
              │ pings ──▶ one pong, for the last of them (RFC 6455, 5.5.3)
              └ all else: handshake, close, fragments, what breaks the rules ──▶ websockets
a message of the application ── send, write_message ──▶ one frame, written as it is

websockets reads and writes each frame step by step in Python, which for a small one costs as much
as what it asks for. It is given whole frames only, or all that follows a head it must refuse: so it
never waits for the rest of a frame, and the short way can take the next one.

Frames are taken as long as the connection's ``SocketBudget`` lasts and the application has room for
them. What was read beyond that stays unread in ``_rest``, and nothing more is read, until

    the application has emptied its queue ──▶ ``receive`` ─┐
    a later turn of the loop, the next second ────────────┴▶ ``_continue``
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Opcode
from websockets.protocol import State

from mqservice.web.corked_transport import CorkedTransport
from mqservice.web.loop_turns import turns_of
from mqservice.web.socket_budget import BudgetLimits, SocketBudget

try:
    from websockets.speedups import apply_mask
except ImportError:  # built without its C part
    from websockets.utils import apply_mask

# First bytes of a frame: the end of a message, no bit of an extension, and what it holds.
_TEXT: Final = 0x81
_BINARY: Final = 0x82
_MESSAGES: Final = (_BINARY, _TEXT)
_PING: Final = 0x89
_PONG: Final = 0x8A
_FINAL: Final = 0x80
_CONTINUATION: Final = 0x0
_DATA_OPCODES: Final = (_CONTINUATION, 0x1, 0x2)
_MASKED: Final = 0x80  # of the second byte, whose other bits are the length, or say where it is
_LENGTH_OF_2: Final = 126
_LENGTH_OF_8: Final = 127
_OPCODES: Final = frozenset(Opcode)
# Messages that wait for the application; then nothing is read.
WAITING_COUNT_MAX: Final = 8
_LARGE_BYTES: Final = 16 * 1024  # one of them is enough
_JOINED_BYTES_MAX: Final = 16 * 1024  # below it, copying costs less than a second piece
# Go's libraries cut messages into fragments of 4 KiB, so the largest message has 2,048 of them.
FRAGMENTS_MAX: Final = 8_192
SMALL_FRAGMENT_BYTES: Final = 512  # below it, a fragment is a no-op for the budget
POLICY_CODE: Final = 1008
# What may still come after the close frame: the client may be sending a large message. One that
# sends more does not read, and is cut off.
LATE_BYTES_MAX: Final = 8 * 1024 * 1024
_EXCESS_CLOSE_S: Final = 2.0  # for the client to read why

Data = bytes | bytearray


def socket_protocol(limits: BudgetLimits) -> type[SocketProtocol]:
    """The protocol, for a server whose sockets have these limits."""
    return type(SocketProtocol.__name__, (SocketProtocol,), {"budget_limits": limits})


def socket_of(send: Callable[..., Any]) -> SocketProtocol | None:  # Any: as ASGI has it
    """The connection whose ``send`` this is, unless others stand between or it is another's."""
    found = getattr(send, "__self__", None)
    return found if isinstance(found, SocketProtocol) else None


class SocketProtocol(WebSocketsSansIOProtocol):
    """See the module's docstring."""

    budget_limits: ClassVar[BudgetLimits] = BudgetLimits()

    _bytes_max = 0
    _rest_bytes_min = 0  # ``_rest`` is not worth a look before it has as many
    _has_unread = False  # ``_rest`` may begin with whole frames, and nothing is read
    _is_waiting = False  # ``_continue`` will be called
    _pause_timer: asyncio.TimerHandle | None = None
    _pong: bytes | None = None  # content of the pong that is owed
    _fragment_count = 0  # of the message that is not whole yet
    _late_bytes = 0  # that came after the close frame was sent
    _is_cut_off = False  # closed for its excess: what comes now is not even looked at

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: as uvicorn has them
        super().__init__(*given, **named)
        assert not self.config.ws_per_message_deflate, "the short way knows no extension"
        self._rest = bytearray()  # the beginning of a frame
        self._bytes_max = self.config.ws_max_size
        self.budget = self.make_budget()

    def make_budget(self) -> SocketBudget:
        return SocketBudget(turns_of(self.loop), self.budget_limits)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        self._rest = bytearray()
        if isinstance(self.transport, CorkedTransport):
            self.transport.lost()

    # In -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:
            super().data_received(data)  # the head of the request, which is all of ``data``
            return
        budget = self.budget
        budget.start()
        budget.spend_bytes(len(data))
        if self.close_sent:
            self._late_bytes += len(data)
            if self._late_bytes > LATE_BYTES_MAX:
                self.transport.abort()
                return
        if not self._is_cut_off:
            self._take_data(data)
        budget.stop()
        self._apply_budget()

    def _take_data(self, data: bytes) -> None:
        rest = self._rest
        if self.conn.state is State.CONNECTING or self._has_unread or self._is_waiting:
            # The first: a client that did not wait for the answer. websockets fails on what is
            # broken now. The others: uvicorn reads on by itself once the application has closed.
            rest += data
            self._has_unread = True
            self.transport.pause_reading()
            return
        if not rest:
            taken = self._take_frames(data)
            if taken < len(data):
                rest += memoryview(data)[taken:]
        else:
            rest += data
            if len(rest) >= self._rest_bytes_min:
                self._take_rest()

    def _take_rest(self) -> None:
        rest = self._rest
        taken = self._take_frames(rest)
        if taken == len(rest):
            self._rest = bytearray()  # a large one would keep its memory
        else:
            del rest[:taken]

    def _take_frames(self, data: Data) -> int:
        """Take whole frames from the beginning of ``data``, as many as may be taken now; how many
        bytes they have. What is left of them is said by ``_has_unread``.
        """
        budget = self.budget
        at, end = 0, len(data)
        self._rest_bytes_min = 2
        while end - at >= 2:
            if at and (self.read_paused or budget.is_turn_over or budget.pause_s()):
                self._has_unread = True
                break
            taken = self._take_frame(data, at, end)
            if not taken:
                break
            at += taken
            budget.spend_frame()
        if self._pong is not None:
            self._send_pong()
        return at

    def _take_frame(self, data: Data, at: int, end: int) -> int:
        """Take the frame that begins at ``at``; its bytes, 0 while part of it is missing."""
        conn = self.conn
        first, second = data[at], data[at + 1]
        is_broken = not second & _MASKED or first & 0x0F not in _OPCODES
        # Once the application has closed, the client's answer may stand behind other frames.
        is_over = conn.state is not State.OPEN and not self.close_sent
        if is_broken or is_over or self.transport.is_closing():
            self._pass_on(data[at:])
            return end - at
        length = second & 0x7F
        body_at = at + 6
        if length >= _LENGTH_OF_2:
            body_at += 2 if length == _LENGTH_OF_2 else 8
            if end < body_at - 4:
                self._rest_bytes_min = body_at - 4 - at
                return 0
            length = int.from_bytes(data[at + 2 : body_at - 4])
        if length > self._bytes_max - (conn.current_size or 0):
            self._pass_on(data[at:])
            return end - at
        frame_end = body_at + length
        if frame_end > end:
            self._rest_bytes_min = frame_end - at
            return 0
        if first in _MESSAGES and conn.current_size is None:
            if not self.close_sent:
                mask = data[body_at - 4 : body_at]
                self._queue(first, apply_mask(data[body_at:frame_end], mask))
        elif first in (_PING, _PONG) and body_at == at + 6:
            self.budget.spend_no_op()
            if first == _PING:
                self._pong = apply_mask(data[body_at:frame_end], data[body_at - 4 : body_at])
        else:
            if first & 0x0F in _DATA_OPCODES:
                self._count_fragment(first, length)
            self._pass_on(data[at:frame_end])
        return frame_end - at

    def _queue(self, first: int, content: bytes) -> None:
        """Give the application a message, unless this is no text."""
        message: Any  # as ASGI has them
        if first == _BINARY:
            message = {"type": "websocket.receive", "bytes": content}
        else:
            try:
                message = {"type": "websocket.receive", "text": content.decode()}
            except UnicodeDecodeError:
                self._send_due_pong()
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        queue = self.queue
        queue.put_nowait(message)
        is_much = len(content) >= _LARGE_BYTES or queue.qsize() >= WAITING_COUNT_MAX
        if is_much and not self.read_paused:
            self.read_paused = True  # until ``receive`` has emptied the queue
            self.transport.pause_reading()

    def _count_fragment(self, first: int, length: int) -> None:
        if first & _FINAL:
            self._fragment_count = 0
            return
        self._fragment_count += 1
        if self._fragment_count > FRAGMENTS_MAX:
            self.budget.excess = f"a message must have at most {FRAGMENTS_MAX} fragments"
        elif length < SMALL_FRAGMENT_BYTES:
            self.budget.spend_no_op()

    def _pass_on(self, data: Data) -> None:
        """To websockets, unless what came before has ended the connection."""
        self._send_due_pong()
        if not self.transport.is_closing():
            super().data_received(bytes(data))

    # Its budget ---------------------------------------------------------------------------------

    async def receive(self) -> Any:  # Any: as ASGI has it
        """The next message for the application, in a later turn if this one is used up."""
        budget, queue = self.budget, self.queue
        budget.stop()
        if not queue.empty() and budget.is_turn_over:
            await budget.give_way()
        message = await queue.get()
        if self.read_paused and queue.empty():
            self.read_paused = False
            self._continue_unless_waiting()
        budget.start()
        return message

    def _apply_budget(self) -> None:
        """After frames were taken: read on, or see to it that ``_continue`` is called."""
        budget = self.budget
        pause_s = budget.pause_s()
        if budget.excess and not self._is_cut_off:
            self._close_for_excess()
        if self._is_waiting or self.conn.state is State.CONNECTING:
            return
        if pause_s:
            self._is_waiting = True
            self.transport.pause_reading()
            self._pause_timer = self.loop.call_later(pause_s, self._continue)
        elif self._has_unread or budget.is_turn_over:
            self.transport.pause_reading()
            if not self.read_paused:
                self._is_waiting = True
                budget.wait(self._continue)

    def _continue(self) -> None:
        """Take what is unread, then read on."""
        self._is_waiting = False
        self._pause_timer = None
        if self.read_paused:
            return
        if self.transport.is_closing():
            self._rest = bytearray()
            return
        if self._has_unread:
            self._has_unread = False
            self.budget.start()
            self._take_rest()
            self.budget.stop()
            self._apply_budget()
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not (self.read_paused or self._has_unread or self._is_waiting):
            self.transport.resume_reading()

    def _continue_unless_waiting(self) -> None:
        if not self._is_waiting:
            self._continue()

    def _close_for_excess(self) -> None:
        """Tell the client why, and look at nothing that it still sends."""
        self._is_cut_off = True
        self._has_unread = False
        self._rest = bytearray()
        if self.transport.is_closing():
            return
        if not self.close_sent:
            reason = self.budget.excess
            self.conn.send_close(POLICY_CODE, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait(
                {"type": "websocket.disconnect", "code": POLICY_CODE, "reason": reason}
            )
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(_EXCESS_CLOSE_S, self.transport.close)

    # Out ----------------------------------------------------------------------------------------

    def resume_writing(self) -> None:
        super().resume_writing()
        self._send_due_pong()

    def _send_due_pong(self) -> None:
        if self._pong is not None:
            self._send_pong()

    def _send_pong(self) -> None:
        """For the last ping. While the client does not read, it waits for later pings."""
        content = self._pong
        assert content is not None
        if self.writable.is_set():
            self._pong = None
            if not self.transport.is_closing():
                self.transport.write(bytes((_PONG, len(content))) + content)

    async def send(self, message: Any) -> None:  # Any: uvicorn's types are narrower than ours
        if message["type"] == "websocket.send" and self.may_write():
            content = message.get("bytes")
            if content is not None:
                self.write_message(content, is_text=False)
                return
            text = message.get("text")
            if text is not None:
                self.write_message(text.encode(), is_text=True)
                return
        await super().send(message)
        if message["type"] == "websocket.accept" and isinstance(self.transport, CorkedTransport):
            self.transport.recognised()
        if self._has_unread:  # it has accepted or closed
            self._continue_unless_waiting()

    def may_write(self) -> bool:
        """Whether the client is there and reads."""
        return (
            self.conn.state is State.OPEN
            and self.handshake_complete
            and self.writable.is_set()
            and not (self.close_sent or self.disconnected)
        )

    def write_message(self, content: bytes, *, is_text: bool) -> None:
        """Send a message without waiting, if ``may_write``. ``content`` of a text is UTF-8."""
        first = _TEXT if is_text else _BINARY
        length = len(content)
        if length < _LENGTH_OF_2:
            head = bytes((first, length))
        elif length < 1 << 16:
            head = bytes((first, _LENGTH_OF_2)) + length.to_bytes(2)
        else:
            head = bytes((first, _LENGTH_OF_8)) + length.to_bytes(8)
        if length < _JOINED_BYTES_MAX:
            self.transport.write(head + content)
        else:
            self.transport.write(head)
            self.transport.write(content)
