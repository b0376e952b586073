"""``--format``: what is printed of a message, in kcat's placeholders and some of our own.

'%p:%o %k %s\\n' ─▶ Template ─▶ write(message, topic) ─▶ bytes
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from typing import Final

from mqservice.cli.errors import UsageError
from mqservice.cli.messages import Delivered

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
Part = Callable[[Delivered, str], bytes]


def _text(part: Callable[[Delivered], object]) -> Part:
    return lambda message, topic: str(part(message)).encode("utf-8", "backslashreplace")


def _headers(message: Delivered) -> str:
    return ",".join(f"{name}={value}" for name, value in message.properties.items())


def _stored_ms(message: Delivered) -> int:
    """Milliseconds since 1970; -1 where the time is unknown, as kcat has it."""
    if not message.stored_at:
        return -1
    return round(datetime.fromisoformat(message.stored_at).timestamp() * 1000)


# In the order of the page about the command line.
PLACEHOLDERS: Final[dict[str, tuple[str, Part]]] = {
    "s": ("the body, unchanged", lambda message, topic: message.body),
    "S": ("length of the body in bytes", _text(lambda message: len(message.body))),
    "B": ("the body in base64", _text(lambda message: b64encode(message.body).decode())),
    "k": ("the keys, separated by commas", _text(lambda message: ",".join(message.keys))),
    "K": ("length of the keys in bytes", _text(lambda message: len(",".join(message.keys)))),
    "t": ("the topic", lambda message, topic: topic.encode()),
    "p": ("the queue (kcat: partition)", _text(lambda message: message.queue)),
    "o": ("the offset in its queue", _text(lambda message: message.offset)),
    "T": ("time it was stored, in ms since 1970", _text(_stored_ms)),
    "D": ("time it was stored, in RFC 3339", _text(lambda message: message.stored_at)),
    "h": ("the properties as name=value, separated by commas", _text(_headers)),
    "g": ("the tag", _text(lambda message: message.tag or "")),
    "G": ("the message group", _text(lambda message: message.message_group or "")),
    "i": ("the ID", _text(lambda message: message.id)),
    "a": ("number of the delivery attempt, starting at 1", _text(lambda message: message.attempt)),
}


class Template:
    """Placeholders, ``%%``, escapes and plain text, read once."""

    def __init__(self, text: str) -> None:
        """Raises UsageError for what is no placeholder and no escape."""
        self._parts: list[Part] = []
        place = 0
        while place < len(text):
            letter, following = text[place], text[place + 1 : place + 2]
            if letter == "%" and following != "%":
                self._parts.append(_placeholder(following))
            elif letter in "%\\":
                self._parts.append(_constant(b"%" if letter == "%" else _escape(following)))
            else:
                self._parts.append(_constant(letter.encode("utf-8", "surrogateescape")))
                place -= 1
            place += 2

    def write(self, message: Delivered, topic: str) -> bytes:
        return b"".join(part(message, topic) for part in self._parts)


def _placeholder(letter: str) -> Part:
    found = PLACEHOLDERS.get(letter)
    if found is None:
        known = " ".join(f"%{each}" for each in PLACEHOLDERS)
        raise UsageError(f"--format has no placeholder %{letter}; use {known} or %%")
    return found[1]


def _escape(letter: str) -> bytes:
    if letter not in _ESCAPES or not letter:
        known = " ".join(f"\\{each}" for each in _ESCAPES)
        raise UsageError(f"--format has no escape \\{letter}; use {known}")
    return _ESCAPES[letter]


def _constant(content: bytes) -> Part:
    return lambda message, topic: content
