"""Both sides of a connection over a network prove that they know the secret, which never travels.

    client ── CHALLENGE: shard, its nonce ─────────────────────▶ engine
    client ◀── the engine's nonce, the engine's proof ────────── engine
    client ── HELLO: shard, the client's proof ────────────────▶ engine

A proof is HMAC-SHA-256 over who proves, the shard and both nonces. So it is worth nothing on
another connection, for another shard, or sent back to where it came from.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from storage_engine.errors import Unauthenticated
from storage_engine.wire.address import Credentials
from storage_engine.wire.protocol import ChallengeReply, ChallengeRequest

NONCE_BYTES: Final = 32


class ClientProof:
    """The client's part in one connection."""

    def __init__(self, credentials: Credentials, shard: str) -> None:
        """Raises Unauthenticated when there is nothing to prove with."""
        if not credentials.secret:
            raise Unauthenticated(
                "an engine over a network asks for proof, and this process has no secret: "
                "set MQ_ENGINE_SECRET or MQ_ENGINE_SECRET_FILE"
            )
        self._secret = credentials.secret
        self.challenge = ChallengeRequest(shard=shard, nonce=secrets.token_bytes(NONCE_BYTES))

    def answer(self, reply: ChallengeReply) -> bytes:
        """The proof for HELLO. Raises Unauthenticated when the engine's own does not match."""
        shard, nonce = self.challenge.shard, self.challenge.nonce
        expected = _proof(self._secret, b"engine", shard, nonce, reply.nonce)
        if not hmac.compare_digest(expected, reply.proof):
            raise Unauthenticated("the engine has another MQ_ENGINE_SECRET than this process")
        return _proof(self._secret, b"client", shard, nonce, reply.nonce)


class EngineProof:
    """The engine's part in one connection; good for one proof."""

    def __init__(self, secret: str, challenge: ChallengeRequest) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        parts = challenge.shard, challenge.nonce, nonce
        self._expected = _proof(secret, b"client", *parts)
        self.reply = ChallengeReply(nonce=nonce, proof=_proof(secret, b"engine", *parts))

    def accepts(self, proof: bytes) -> bool:
        """Whether the client knows the secret."""
        return hmac.compare_digest(self._expected, proof)


def _proof(secret: str, who: bytes, shard: str, client_nonce: bytes, engine_nonce: bytes) -> bytes:
    parts = b"mqservice", who, shard.encode(), client_nonce, engine_nonce
    told = b"".join(len(part).to_bytes(4) + part for part in parts)  # no part runs into the next
    return hmac.digest(secret.encode(), told, hashlib.sha256)
