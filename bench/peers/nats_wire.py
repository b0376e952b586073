"""The protocol of NATS clients: messages cut out of a stream, and a connection that answers pings.

INFO {json} · MSG subject sid [reply] bytes CRLF body CRLF · PING · PONG · +OK · -ERR 'why'
HMSG subject sid [reply] head_bytes all_bytes CRLF head body CRLF

bytes in any pieces ─▶ [NatsParser] ─▶ NatsMessage
"""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple

import msgspec

from bench.measure import MeasureFailed
from bench.peers.wires import Wire

CRLF: Final = b"\r\n"
PONG: Final = b"PONG\r\n"
ANSWERS: Final = b"_INBOX.bench."  # and a number: no two connections share their answers
ANSWERS_SID: Final = 1
_numbers = itertools.count()


class NatsMessage(NamedTuple):
    subject: bytes
    reply: bytes  # empty when there is none
    head: bytes  # NATS/1.0 and a status or headers; empty in a plain MSG
    body: bytes


class NatsParser:
    """Gives whole messages; keeps the rest for the next piece.

    ``pings`` counts those that have come and are for the owner to answer, ``pongs`` those it asked
    for.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.pings = 0
        self.pongs = 0

    def feed(self, content: bytes) -> list[NatsMessage]:
        """Raises MeasureFailed for -ERR and for lines that are none of the protocol."""
        data = self._rest + content if self._rest else content
        messages: list[NatsMessage] = []
        at, size = 0, len(data)
        while at < size:
            line_end = data.find(CRLF, at)
            if line_end < 0:
                break
            words = data[at:line_end].split(b" ")
            kind = words[0]
            body_at = line_end + 2
            if kind in (b"MSG", b"HMSG"):
                body_end = body_at + int(words[-1])
                if body_end + 2 > size:
                    break
                head_bytes = int(words[-2]) if kind == b"HMSG" else 0
                has_reply = len(words) == (6 if kind == b"HMSG" else 5)
                messages.append(
                    NatsMessage(
                        words[1],
                        words[3] if has_reply else b"",
                        data[body_at : body_at + head_bytes],
                        data[body_at + head_bytes : body_end],
                    )
                )
                at = body_end + 2
                continue
            if kind == b"PING":
                self.pings += 1
            elif kind == b"PONG":
                self.pongs += 1
            elif kind not in (b"INFO", b"+OK"):
                raise MeasureFailed(f"refused: {data[at:line_end][:300]!r}")
            at = body_at
        self._rest = data[at:]
        return messages


def make_publish(subject: bytes, body: bytes, reply: bytes = b"") -> bytes:
    """One PUB."""
    to = subject + b" " + reply if reply else subject
    return b"PUB %s %d\r\n%s\r\n" % (to, len(body), body)


class NatsConnection:
    """A wire on which the server has answered; answers its pings."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._parser = NatsParser()
        self.answers = ANSWERS + str(next(_numbers)).encode()

    @classmethod
    async def over(cls, wire: Wire) -> NatsConnection:
        made = cls(wire)
        options = b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}'
        subscribe = b"SUB %s %d\r\n" % (made.answers, ANSWERS_SID)
        made.send(b"CONNECT " + options + CRLF + subscribe + b"PING\r\n")
        while not made._parser.pongs:
            await made._some()
        return made

    def send(self, lines: bytes) -> None:
        self._wire.send(lines)

    async def receive(self) -> list[NatsMessage]:
        """The next messages, at least one."""
        while not (messages := await self._some()):
            pass
        return messages

    async def ask(self, subject: str, question: object) -> dict[str, Any]:  # reason: any JSON
        """The JSON answer to a JSON request. Raises MeasureFailed when it is an error."""
        content = msgspec.json.encode(question)
        self.send(make_publish(subject.encode(), content, self.answers))
        (message,) = await self.receive()
        if not message.body:
            raise MeasureFailed(f"{subject}: {message.head!r}")
        answer: dict[str, Any] = msgspec.json.decode(message.body)
        if "error" in answer:
            raise MeasureFailed(f"{subject}: {answer['error']}")
        return answer

    def close(self) -> None:
        self._wire.close()

    async def _some(self) -> list[NatsMessage]:
        messages = self._parser.feed(await self._wire.receive())
        if self._parser.pings:
            self._wire.send(PONG * self._parser.pings)
            self._parser.pings = 0
        return messages
