"""Where produced messages come from: arguments, whole files, lines, NDJSON.

    TEXT arguments ─┐
    --file paths    ├─▶ [inputs] ─▶ async iterator of lists of Outgoing ─▶ Sender
    stdin           ┘

A list holds what was at hand in one read, so that a pipe that trickles is sent as it comes and a
full one in large batches. Reading runs in a thread; at most one chunk waits at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import threading
from collections.abc import AsyncIterator, Iterable
from io import FileIO
from pathlib import Path
from typing import Final, Protocol

import msgspec

from mqservice.cli.errors import UsageError
from mqservice.cli.messages import Outgoing, parse_line

STDIN_FILENO: Final = 0
CHUNK_BYTES: Final = 1024 * 1024
# The largest body in base64 with room for its other fields.
LINE_BYTES_MAX: Final = 8 * 1024 * 1024
BODY_BYTES_MAX: Final = 64 * 1024 * 1024


class Format(enum.StrEnum):
    """What one message is: a line of JSON, a line as it is, or the whole of an input."""

    NDJSON = "ndjson"
    LINES = "lines"
    WHOLE = "whole"


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes given once for all messages; a NDJSON line's own ones win."""

    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    delay: str | None = None
    delay_level: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None  # of the only message there is

    def dress(self, message: Outgoing) -> Outgoing:
        has_wait = (message.delay, message.delay_level, message.deliver_at) != (None, None, None)
        wait = message if has_wait else self
        return Outgoing(
            body=message.body,
            tag=self.tag if message.tag is None else message.tag,
            keys=message.keys or self.keys,
            message_group=(
                self.message_group if message.message_group is None else message.message_group
            ),
            properties={**self.properties, **message.properties},
            delay=wait.delay,
            delay_level=wait.delay_level,
            deliver_at=wait.deliver_at,
            dedup_id=self.dedup_id if message.dedup_id is None else message.dedup_id,
        )


class ChunkReader(Protocol):
    """A stream whose read returns what is at hand, at least a byte, and nothing at the end."""

    def read(self, size: int, /) -> bytes | None: ...


async def from_bodies(bodies: Iterable[bytes], common: Common) -> AsyncIterator[list[Outgoing]]:
    yield [common.dress(Outgoing(body=body)) for body in bodies]


async def from_files(
    paths: list[Path], form: Format, common: Common
) -> AsyncIterator[list[Outgoing]]:
    """Messages of files, one after the other; ``-`` is stdin.

    Raises:
        UsageError: a file that cannot be read, or a line that is no message.
    """
    for path in paths:
        stream = _open(path)
        try:
            if form is Format.WHOLE:
                yield [common.dress(Outgoing(body=await _read_whole(stream, path)))]
            else:
                async for messages in from_lines(stream, form, common):
                    yield messages
        finally:
            stream.close()


async def from_lines(
    stream: ChunkReader, form: Format, common: Common
) -> AsyncIterator[list[Outgoing]]:
    """Messages of lines, ended by a newline each; empty lines are passed over.

    Raises:
        UsageError: a line that is no message, after all lines before it were yielded.
    """
    rest = b""
    line_number = 0
    is_end = False
    while not is_end:
        chunk = await _read_some(stream)
        is_end = not chunk
        *lines, rest = (rest + chunk).split(b"\n")
        if is_end and rest:
            lines.append(rest)
        if len(rest) > LINE_BYTES_MAX:
            raise UsageError(
                f"line {line_number + len(lines) + 1} has more than {LINE_BYTES_MAX} bytes"
            )
        messages: list[Outgoing] = []
        for line in lines:
            line_number += 1
            line = line.removesuffix(b"\r") if form is Format.NDJSON else line
            if not line:
                continue
            try:
                message = _parse(line, form, line_number)
            except UsageError:
                yield messages
                raise
            messages.append(common.dress(message))
        if messages:
            yield messages


def count_ahead(paths: list[Path], form: Format) -> int | None:
    """How many messages the inputs will make, where that is known without reading them."""
    return len(paths) if form is Format.WHOLE else None


def _parse(line: bytes, form: Format, line_number: int) -> Outgoing:
    if form is Format.NDJSON:
        return parse_line(line, line_number=line_number)
    return Outgoing(body=line)


async def _read_whole(stream: ChunkReader, path: Path) -> bytes:
    chunks: list[bytes] = []
    bytes_read = 0
    while chunk := await _read_some(stream):
        chunks.append(chunk)
        bytes_read += len(chunk)
        if bytes_read > BODY_BYTES_MAX:
            raise UsageError(
                f"{path} is larger than the largest message, which has {BODY_BYTES_MAX} bytes"
            )
    return b"".join(chunks)


async def _read_some(stream: ChunkReader) -> bytes:
    """Read in a daemon thread: one of an executor would hold up Ctrl-C until the pipe speaks."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()

    def tell(chunk: bytes, error: OSError | None) -> None:
        if arrived.cancelled():
            return
        if error is None:
            arrived.set_result(chunk)
        else:
            arrived.set_exception(UsageError(f"cannot read the input: {error}"))

    def read() -> None:
        chunk, error = b"", None
        try:
            chunk = stream.read(CHUNK_BYTES) or b""
        except OSError as exc:
            error = exc
        # The loop is gone when the command was interrupted meanwhile; nobody waits then.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, chunk, error)

    threading.Thread(target=read, name="input", daemon=True).start()
    return await arrived


def _open(path: Path) -> FileIO:
    """Unbuffered: a buffer's lock held by a waiting thread would break the interpreter's exit."""
    try:
        return FileIO(STDIN_FILENO, closefd=False) if str(path) == "-" else FileIO(path)
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
