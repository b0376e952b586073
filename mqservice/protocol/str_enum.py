"""``enum.StrEnum`` for every Python that a client runs on: the standard one came with 3.11."""

from __future__ import annotations

import enum
import sys

if sys.version_info >= (3, 11):
    StrEnum = enum.StrEnum
else:

    class StrEnum(str, enum.Enum):
        """Its members are strings, also when they are formatted."""

        __str__ = str.__str__
