"""uvicorn's WebSockets, with a short way for what nearly every frame is: a whole message.

bytes ──▶ [SocketProtocol] ── a frame that is a message ──▶ the application's queue
              │ part of a frame ──▶ kept until the rest of it has come
              └ all else: handshake, ping, close, fragments, what breaks the rules ──▶ websockets
a message of the application ── send, write_message ──▶ one frame, written as it is

websockets reads and writes each frame step by step in Python, which for a small one costs as much
as what it asks for. It is given whole frames only, or all that follows a head it must refuse: so it
never waits for the rest of a frame, and the short way can take the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Opcode
from websockets.protocol import State

from mqservice.lib.corked_transport import CorkedTransport

try:
    from websockets.speedups import apply_mask
except ImportError:  # built without its C part
    from websockets.utils import apply_mask

# First bytes of a frame: the end of a message, no bit of an extension, and what it holds.
_TEXT: Final = 0x81
_BINARY: Final = 0x82
_MESSAGES: Final = (_BINARY, _TEXT)
_MASKED: Final = 0x80  # of the second byte, whose other bits are the length, or say where it is
_LENGTH_OF_2: Final = 126
_LENGTH_OF_8: Final = 127
_OPCODES: Final = frozenset(Opcode)
# Messages that wait for the application, apart from those of one read; then nothing is read.
WAITING_COUNT_MAX: Final = 8
_LARGE_BYTES: Final = 16 * 1024  # one of them is enough
_JOINED_BYTES_MAX: Final = 16 * 1024  # below it, copying costs less than a second piece

Data = bytes | bytearray


def socket_of(send: Callable[..., Any]) -> SocketProtocol | None:  # Any: as ASGI has it
    """The connection whose ``send`` this is, unless others stand between or it is another's."""
    found = getattr(send, "__self__", None)
    return found if isinstance(found, SocketProtocol) else None


class SocketProtocol(WebSocketsSansIOProtocol):
    """See the module's docstring."""

    _bytes_max = 0
    _rest_bytes_min = 0  # ``_rest`` is not worth a look before it has as many

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: as uvicorn has them
        super().__init__(*given, **named)
        assert not self.config.ws_per_message_deflate, "the short way knows no extension"
        self._rest = bytearray()  # the beginning of a frame
        self._bytes_max = self.config.ws_max_size

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if isinstance(self.transport, CorkedTransport):
            self.transport.lost()

    # In -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:
            super().data_received(data)  # the head of the request, which is all of ``data``
            return
        rest = self._rest
        if self.conn.state is State.CONNECTING:
            # A client that did not wait for the answer. websockets fails on what is broken now.
            rest += data
            self.transport.pause_reading()
            return
        if not rest:
            taken = self._take_frames(data)
            if taken < len(data):
                rest += memoryview(data)[taken:]
            return
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
        """Take whole frames from the beginning of ``data``; how many bytes they have."""
        conn = self.conn
        at, end = 0, len(data)
        while end - at >= 2:
            if conn.state is not State.OPEN:
                self._pass_on(data[at:])
                return end
            first, second = data[at], data[at + 1]
            if not second & _MASKED or first & 0x0F not in _OPCODES:
                self._pass_on(data[at:])
                return end
            length = second & 0x7F
            body_at = at + 6
            if length >= _LENGTH_OF_2:
                body_at += 2 if length == _LENGTH_OF_2 else 8
                if end < body_at - 4:
                    self._rest_bytes_min = body_at - 4 - at
                    return at
                length = int.from_bytes(data[at + 2 : body_at - 4])
            if length > self._bytes_max - (conn.current_size or 0):
                self._pass_on(data[at:])
                return end
            frame_end = body_at + length
            if frame_end > end:
                self._rest_bytes_min = frame_end - at
                return at
            if first in _MESSAGES and conn.current_size is None:
                mask = data[body_at - 4 : body_at]
                self._queue(first, apply_mask(data[body_at:frame_end], mask))
            else:
                self._pass_on(data[at:frame_end])
            at = frame_end
        self._rest_bytes_min = 2
        return at

    def _queue(self, first: int, content: bytes) -> None:
        """Give the application a message, unless it has closed or this is no text."""
        if self.close_sent:
            return
        message: Any  # as ASGI has them
        if first == _BINARY:
            message = {"type": "websocket.receive", "bytes": content}
        else:
            try:
                message = {"type": "websocket.receive", "text": content.decode()}
            except UnicodeDecodeError:
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        queue = self.queue
        queue.put_nowait(message)
        is_much = len(content) >= _LARGE_BYTES or queue.qsize() >= WAITING_COUNT_MAX
        if is_much and not self.read_paused:
            self.read_paused = True  # until ``receive`` has emptied the queue
            self.transport.pause_reading()

    def _pass_on(self, data: Data) -> None:
        """To websockets, unless what came before has ended the connection."""
        if not self.transport.is_closing():
            super().data_received(bytes(data))

    # Out ----------------------------------------------------------------------------------------

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
        if self._rest and message["type"] == "websocket.accept":
            self._take_rest()
            if not self.read_paused:
                self.transport.resume_reading()

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
