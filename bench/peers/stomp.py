"""STOMP 1.2 as two brokers speak it: frames cut out of a stream, frames made.

    bytes in any pieces ─▶ [StompParser] ─▶ StompFrame(command, head, body)
    command, headers, body ─▶ [make_frame] ─▶ bytes

    COMMAND LF (name:value LF)* LF body NUL       a heart-beat between frames is one LF

Header values stay escaped: what is sent back is what came.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.measure import MeasureFailed
from bench.peers.wires import Wire, connection_failed

HEAD_END: Final = b"\n\n"


class StompFrame(NamedTuple):
    command: bytes
    head: bytes  # header lines, each after a line feed
    body: bytes

    def header(self, name: bytes) -> bytes:
        """The value as it came, escaped; empty when there is none."""
        _, found, rest = self.head.partition(b"\n" + name + b":")
        return rest.partition(b"\n")[0].rstrip(b"\r") if found else b""


class StompParser:
    """Gives whole frames; keeps the rest for the next piece."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> list[StompFrame]:
        """Raises MeasureFailed for an ERROR frame, or when a frame's end is not where it says."""
        data = self._rest + content if self._rest else content
        frames: list[StompFrame] = []
        at, size = 0, len(data)
        while at < size:
            if data[at] in b"\n\r":
                at += 1
                continue
            head_end = data.find(HEAD_END, at)
            if head_end < 0:
                break
            line_end = data.find(b"\n", at)
            head = data[line_end:head_end]
            body_at = head_end + len(HEAD_END)
            body_end = _body_end(data, head, body_at)
            if body_end is None:
                break
            frame = StompFrame(data[at:line_end].rstrip(b"\r"), head, data[body_at:body_end])
            if frame.command == b"ERROR":
                raise MeasureFailed(f"refused: {frame.header(b'message')!r} {frame.body[:300]!r}")
            frames.append(frame)
            at = body_end + 1
        self._rest = data[at:]
        return frames


def _body_end(data: bytes, head: bytes, body_at: int) -> int | None:
    """Where the NUL stands, None while it has not come."""
    _, found, rest = head.partition(b"\ncontent-length:")
    if not found:
        end = data.find(b"\0", body_at)
        return None if end < 0 else end
    end = body_at + int(rest.partition(b"\n")[0])
    if end >= len(data):
        return None
    if data[end] != 0:
        raise MeasureFailed(f"a frame of {end - body_at} bytes does not end with NUL")
    return end


def make_frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """One frame. Header values have to be escaped already."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n".encode() + body + b"\0"


class StompConnection:
    """A wire on which CONNECTED has come."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._parser = StompParser()

    @classmethod
    async def over(cls, wire: Wire, *, login: str, passcode: str) -> StompConnection:
        made = cls(wire)
        headers = {"accept-version": "1.2", "host": "/", "heart-beat": "0,0"}
        made.send(make_frame("CONNECT", {**headers, "login": login, "passcode": passcode}))
        frames = await made.receive()
        if [frame.command for frame in frames] != [b"CONNECTED"]:
            raise connection_failed(f"not connected: {frames!r}")
        return made

    def send(self, frames: bytes) -> None:
        self._wire.send(frames)

    async def receive(self) -> list[StompFrame]:
        """The next frames, at least one."""
        while not (frames := self._parser.feed(await self._wire.receive())):
            pass
        return frames

    def close(self) -> None:
        self._wire.close()
