"""What the object log asks of an object store: few operations, each of them atomic.

Nothing is taken from a listing but names to delete: listings may lag behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias


class BucketError(Exception):
    """An operation that failed; whether it was done nobody knows."""


class BucketUnreachable(BucketError):
    """No answer, or one that says to try again."""


class BucketRefused(BucketError):
    """The store answers and will not: credentials, permissions, no such bucket."""


# Entity tag and version, of which stores compare one or the other.
Version: TypeAlias = tuple[str | None, str | None]


class Found(NamedTuple):
    content: bytes
    version: Version  # for ``put`` in its place


class Bucket(Protocol):
    @property
    def linger_ms(self) -> int:
        """How long it pays to gather entries after one, given what a request takes."""

    async def get(self, name: str) -> Found | None: ...

    async def exists(self, name: str) -> bool: ...

    async def put(self, name: str, content: bytes, *, version: Version | None) -> bool:
        """Write an object if it is still of this ``version``; None: if there is none. False: it is
        not, or somebody else is just writing it.
        """

    async def delete(self, names: Sequence[str]) -> None:
        """Those that do not exist as well."""

    async def list_before(self, prefix: str, before: str) -> list[str]:
        """Names from ``prefix`` up to ``before``, without the newest ones if the store lags."""
