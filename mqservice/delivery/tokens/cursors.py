"""Cursors: where a page of messages continues, signed and bound to its query.

    offset  width  field     notes
         0      1  version   1
         1      n  place     what the walk needs to go on; see ``browse`` and ``key_search``
       1+n     16  mac       over topic, 0x00, length and bytes of the question, and the above

The text is the base64url of these bytes without padding. Topic (the engine's name, which begins
with the namespace) and question are part of the MAC only, so a cursor of another tenant, topic or
query is as good as noise, and nothing of them has to be kept in the service. A cursor never gets
old: what retention has taken since is passed over.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from mqservice.delivery.limits import CURSOR_CHARS_MAX
from mqservice.lib.signing import MAC_BYTES, Signer

VERSION: Final = b"\x01"
_LENGTH_BYTES: Final = 4


class Cursors:
    """Makes and reads cursors. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def write(self, place: bytes, *, topic: str, question: bytes) -> str:
        """The text of a cursor to ``place``; ``question``: all that decides what the walk shows."""
        payload = VERSION + place
        return _text(payload + self._signer.mac(_bound(topic, question) + payload))

    def read(self, text: str, *, topic: str, question: bytes) -> bytes | None:
        """The place, or None if the cursor was not made here for this topic and question."""
        if len(text) > CURSOR_CHARS_MAX:
            return None
        try:
            signed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if _text(signed) != text:
            return None  # base64 has several spellings of the same bytes
        payload, mac = signed[:-MAC_BYTES], signed[-MAC_BYTES:]
        if not payload.startswith(VERSION):
            return None
        if not self._signer.is_valid(_bound(topic, question) + payload, mac):
            return None
        return payload[len(VERSION) :]


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode("ascii")


def _bound(topic: str, question: bytes) -> bytes:
    return topic.encode() + b"\0" + len(question).to_bytes(_LENGTH_BYTES) + question
