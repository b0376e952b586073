"""What ``python -m storage_engine.tools.shard_copy`` says of a copy, and how it exits."""

from __future__ import annotations

from typing import Final

import msgspec

EXIT_UNREADABLE: Final = 1  # this shard; the last line of stderr says why
EXIT_REFUSED: Final = 2  # credentials, permissions, the URL, the library: an operator must act


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """Records begin in ``[start_offset, end_offset)``. ``last_ms``: when the last one was stored;
    None where there is none.
    """

    start_offset: int
    end_offset: int
    last_ms: int | None
