"""Tokens with which a client takes its WebSocket session up again: MACs that only it can have.

    session id, key, namespace ──▶ [ResumeTokens] ──▶ token in ``welcome``
    token, and who brings it ───▶ [ResumeTokens] ──▶ is it theirs?

The token says nothing and is stored nowhere. It is good for one session, of one key, in one
namespace, for as long as the session lives; any web process that has the secret can check it.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from mqservice.accounts.access import Principal
from mqservice.lib.signing import MAC_BYTES, Signer

_TEXT_CHARS_MAX: Final = 64


class ResumeTokens:
    """Makes and checks tokens. Thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    def token(self, session_id: str, principal: Principal, namespace: str) -> str:
        mac = self._signer.mac(_claim(session_id, principal, namespace))
        return urlsafe_b64encode(mac).rstrip(b"=").decode()

    def is_valid(self, token: str, session_id: str, principal: Principal, namespace: str) -> bool:
        """Whether ``token`` was made for this session of this key in this namespace."""
        if len(token) > _TEXT_CHARS_MAX or not token.isascii():
            return False
        try:
            mac = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            return False
        claim = _claim(session_id, principal, namespace)
        return len(mac) == MAC_BYTES and self._signer.is_valid(claim, mac)


def _claim(session_id: str, principal: Principal, namespace: str) -> bytes:
    """No part can contain a NUL, so that no two claims are the same bytes."""
    parts = session_id, str(principal.tenant_id), principal.key_id, namespace
    return "\0".join(part.replace("\0", "") for part in parts).encode(errors="replace")
