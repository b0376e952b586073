"""Whether the engine of a shard answers at an address, asked by a machine that could take it over.

    CHALLENGE ──▶ engine ── its proof ──▶ it runs, and is of this installation

Nothing else is asked, and no secret travels. A certificate is not looked at: the proof says more.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from storage_engine.errors import StoreError, StoreUnavailable
from storage_engine.wire.address import Address, Credentials, Scheme, connect_failure
from storage_engine.wire.frames import (
    FrameDecoder,
    decode_error,
    encode_frame,
    encode_struct,
)
from storage_engine.wire.operations import Op
from storage_engine.wire.proof import ClientProof

TIMEOUT_S: Final = 1.0
_FRAME_BYTES_MAX: Final = 4 * 1024


async def why_silent(address: str, *, shard: str, secret: str) -> str:
    """Why no engine of the shard answers there within a second; empty when it does."""
    try:
        place = Address.parse(address)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await _ask(place, ClientProof(Credentials(secret), shard))
        except TimeoutError:
            return f"nothing came from {address} within {TIMEOUT_S:g} s"
        except OSError as exc:
            return f"{address}: {connect_failure(place, exc)}"
    except StoreError as exc:
        return f"{address}: {exc}"
    return ""


async def _ask(address: Address, proof: ClientProof) -> None:
    """Raises ``OSError``, ``StoreError``."""
    if not address.is_remote:
        raise StoreUnavailable("the path of a socket says nothing to another machine")
    tls = None
    if address.scheme is Scheme.TLS:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
    try:
        writer.write(encode_frame(Op.CHALLENGE, 1, encode_struct(proof.challenge)))
        decoder = FrameDecoder(_FRAME_BYTES_MAX)
        while chunk := await reader.read(_FRAME_BYTES_MAX):
            for frame in decoder.feed(chunk):
                if frame.status:
                    raise decode_error(frame.status, frame.payload)
                proof.answer(Op.CHALLENGE.decode_reply(frame.payload))
                return
        raise StoreUnavailable("it closed the connection")
    finally:
        writer.transport.abort()
