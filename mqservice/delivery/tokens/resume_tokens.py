"""Tokens with which a client takes its WebSocket session up again: MACs that only it can have.

    session id, key, namespace ──▶ [ResumeTokens] ──▶ token in ``welcome``
    token, and who brings it ───▶ [ResumeTokens] ──▶ is it theirs?

The token says nothing and is stored nowhere. It is good for one session, of one key, in one
namespace, for as long as the session lives; any web process that has the secret can check it.
"""

from __future__ import annotations

from typing import Final

from mqservice.accounts.access import Principal
from mqservice.lib.signed_text import read_signed, signed_text
from mqservice.lib.signing import Signer

_TEXT_CHARS_MAX: Final = 64


class ResumeTokens:
    """Makes and checks tokens. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def token(self, session_id: str, principal: Principal, namespace: str) -> str:
        return signed_text(self._signer, b"", _claim(session_id, principal, namespace))

    def is_valid(self, token: str, session_id: str, principal: Principal, namespace: str) -> bool:
        """Whether ``token`` was made for this session of this key in this namespace."""
        claim = _claim(session_id, principal, namespace)
        return read_signed(self._signer, token, claim, chars_max=_TEXT_CHARS_MAX) == b""


def _claim(session_id: str, principal: Principal, namespace: str) -> bytes:
    """No part can contain a NUL, so that no two claims are the same bytes."""
    parts = session_id, str(principal.tenant_id), principal.key_id, namespace
    return "\0".join(part.replace("\0", "") for part in parts).encode(errors="replace")
