"""The message group of a record, from its encoded properties; pure function."""

from __future__ import annotations

from typing import Final

_MARK: Final = b"\x02__SHARDINGKEY\x01"


def message_group_of(properties: bytes) -> bytes:
    """The text of the message group; empty without one, which is as good as none.

    Properties may be damaged: then it is some text.
    """
    if properties.startswith(_MARK[1:]):
        start = len(_MARK) - 1
    else:
        start = properties.find(_MARK)
        if start < 0:
            return b""
        start += len(_MARK)
    end = properties.find(b"\x02", start)
    return properties[start : end if end >= 0 else None]
