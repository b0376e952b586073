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

from typing import Final

from mqservice.delivery.limits import CURSOR_CHARS_MAX
from mqservice.lib.signed_text import read_signed, signed_text
from mqservice.lib.signing import Signer

VERSION: Final = b"\x01"
_LENGTH_BYTES: Final = 4


class Cursors:
    """Makes and reads cursors. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def write(self, place: bytes, *, topic: str, question: bytes) -> str:
        """The text of a cursor to ``place``; ``question``: all that decides what the walk shows."""
        return signed_text(self._signer, VERSION + place, _bound(topic, question))

    def read(self, text: str, *, topic: str, question: bytes) -> bytes | None:
        """The place, or None if the cursor was not made here for this topic and question."""
        claim = _bound(topic, question)
        content = read_signed(self._signer, text, claim, chars_max=CURSOR_CHARS_MAX)
        if content is None or not content.startswith(VERSION):
            return None
        return content[len(VERSION) :]


def _bound(topic: str, question: bytes) -> bytes:
    return topic.encode() + b"\0" + len(question).to_bytes(_LENGTH_BYTES) + question
