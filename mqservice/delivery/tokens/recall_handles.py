"""Recall handles: by which a producer cancels a scheduled message, or sends it at once.

    offset  width  field          notes
         0      1  version        1
         1      1  queue_id       of the schedule, where the message was stored
         2      8  queue_offset   likewise
        10      1  id_bytes
        11      n  id            of the message
      11+n      m  topic          the engine's name, UTF-8
    11+n+m     16  mac            over all of the above

The text is ``rc_`` and the base64url of these bytes without padding. The message may stand
elsewhere by now: the engine finds it by its id.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mqservice.lib.signed_text import read_signed, signed_text
from mqservice.lib.signing import Signer

VERSION: Final = 1
PREFIX: Final = "rc_"
HEAD: Final = struct.Struct(">BBqB")
assert HEAD.size == 11
TEXT_CHARS_MAX: Final = 509  # without the prefix


class RecallHandle(NamedTuple):
    """One scheduled message; ``topic`` is the engine's name."""

    topic: str
    message_id: str
    queue_id: int
    queue_offset: int


class RecallHandles:
    """Makes and reads recall handles. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def write(self, handle: RecallHandle) -> str:
        """The text of a handle."""
        message_id = handle.message_id.encode()
        head = HEAD.pack(VERSION, handle.queue_id, handle.queue_offset, len(message_id))
        payload = head + message_id + handle.topic.encode()
        return PREFIX + signed_text(self._signer, payload)

    def read(self, text: str) -> RecallHandle | None:
        """What the handle says, or None if it was not made here."""
        if not text.startswith(PREFIX):
            return None
        payload = read_signed(self._signer, text[len(PREFIX) :], chars_max=TEXT_CHARS_MAX)
        if payload is None or len(payload) <= HEAD.size:
            return None
        version, queue_id, queue_offset, id_bytes = HEAD.unpack_from(payload)
        if version != VERSION:
            return None
        id_end = HEAD.size + id_bytes
        message_id = payload[HEAD.size : id_end].decode()
        return RecallHandle(payload[id_end:].decode(), message_id, queue_id, queue_offset)
