"""Texts that we hand out and take back unchanged: cursors, recall handles, resume tokens.

    content, claim ──▶ [signed_text] ──▶ base64url(content + MAC over claim and content), unpadded
    text, claim ─────▶ [read_signed] ──▶ content, or None

A claim says who may use the text and for what; it is part of the MAC only. Claims of one signer
must not be the beginning of one another, or content could pass for a part of a claim.
"""

from __future__ import annotations

import base64
import binascii

from mqservice.lib.signing import MAC_BYTES, Signer
from mqservice.lib.wire import refused


def signed_text(signer: Signer, content: bytes, claim: bytes = b"") -> str:
    return _text(content + signer.mac(claim + content))


def read_signed(signer: Signer, text: str, claim: bytes = b"", *, chars_max: int) -> bytes | None:
    """The content, or None if the text was not made by this signer for this claim."""
    if len(text) > chars_max:
        return None
    try:
        signed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if _text(signed) != text:
        return None  # base64 has several spellings of the same bytes
    content, mac = signed[:-MAC_BYTES], signed[-MAC_BYTES:]
    return content if signer.is_valid(claim + content, mac) else None


def read_cursor(signer: Signer, cursor: str, claim: bytes, *, chars_max: int) -> bytes:
    """``read_signed`` of the control plane. Raises Problem CURSOR_INVALID."""
    content = read_signed(signer, cursor, claim, chars_max=chars_max)
    if content is None:
        detail = (
            "the cursor does not belong to this query; give next_cursor of the "
            "previous page, and the same parameters except limit"
        )
        raise refused("?cursor", detail, "CURSOR_INVALID")
    return content


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).rstrip(b"=").decode("ascii")
