"""What the key of a request or of a message may be: ``Idempotency-Key``, ``dedup_id``."""

from __future__ import annotations

import re
from typing import Final

from mqservice.delivery.decoding import Fault

KEY_CHARS_MAX: Final = 128
_KEY: Final = re.compile(rf"[!-~]{{1,{KEY_CHARS_MAX}}}")


def check_key(pointer: str, key: str, name: str) -> None:
    """Raises Fault unless ``key`` is 1 to ``KEY_CHARS_MAX`` visible characters of ASCII."""
    if not _KEY.fullmatch(key):
        detail = f"{name} must be 1 to {KEY_CHARS_MAX} visible ASCII characters"
        raise Fault(pointer, "BAD_REQUEST", detail, item_code="IDEMPOTENCY_KEY")
