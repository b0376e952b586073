"""Requests to a bucket that are tried again, and whole objects of it; whose bucket it is.

    ObjectLog, SnapshotBucket ──▶ [ObjectRequests] ──▶ Bucket

Loop thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from random import Random
from typing import Final, TypeVar

from storage_engine.clock import Clock
from storage_engine.replicated_log.bucket import (
    Bucket,
    BucketError,
    BucketRefused,
    BucketUnreachable,
    Version,
)
from storage_engine.replicated_log.errors import Damaged, Fenced, Misconfigured, Unavailable
from storage_engine.replicated_log.object_format import Kind, LogObject, decode, encode

_T = TypeVar("_T")
# How long a request is tried again before it is given up.
PATIENCE_MS: Final = 10_000
BACKOFF_FIRST_MS: Final = 20
BACKOFF_MAX_MS: Final = 1_000
# A truncated answer is read again; an object that is damaged in the store stays so.
READ_ATTEMPTS_MAX: Final = 5
DELETES_MAX: Final = 1_000  # a request of S3
_DEPLOYMENT: Final = "deployment"


class ObjectRequests:
    """See the module's docstring. ``writer``: who writes here, random for each."""

    def __init__(self, bucket: Bucket, *, deployment: str, clock: Clock, random: Random) -> None:
        self.bucket = bucket
        self.writer = random.randbytes(16)
        self._deployment = deployment
        self._clock = clock
        self._random = random
        self._is_ours = False  # the bucket's deployment was compared

    async def check_deployment(self) -> None:
        """Raises Misconfigured: the bucket is another deployment's."""
        if not self._is_ours:
            owner = await self.patiently(self._claim_bucket)
            if owner != self._deployment:
                raise Misconfigured(
                    f"The bucket belongs to deployment {owner!r}, and this is "
                    f"{self._deployment!r}: name another bucket or prefix"
                )
            self._is_ours = True

    async def _claim_bucket(self) -> str:
        """Whose bucket it is; ours, if it was nobody's."""
        found = await self.fetch(_DEPLOYMENT)
        if found is None:
            marker = LogObject(Kind.DEPLOYMENT, 0, 0, self.writer, self._deployment.encode())
            await self.bucket.put(_DEPLOYMENT, encode(marker), version=None)
            raise BucketUnreachable("somebody else claims it just now")  # read what came of it
        return found[0].content.decode()

    async def fetch(self, name: str) -> tuple[LogObject, Version] | None:
        """One whole object of the log's format. Raises BucketError, Damaged."""
        return await self.fetch_as(name, lambda content: decode(content, name))

    async def fetch_as(self, name: str, parse: Callable[[bytes], _T]) -> tuple[_T, Version] | None:
        """One whole object. An answer that was cut short is asked for again; what is damaged in the
        store stays so. Raises BucketError, and Damaged as ``parse`` does.
        """
        attempt = 1
        while True:
            found = await self.bucket.get(name)
            if found is None:
                return None
            try:
                return parse(found.content), found.version
            except Damaged:
                if attempt == READ_ATTEMPTS_MAX:
                    raise
            attempt += 1

    async def patiently(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Try again for a while; a store that refuses is not asked again."""
        give_up_ms = self._clock.monotonic_ms() + PATIENCE_MS
        attempt = 0
        while True:
            try:
                return await request()
            except BucketRefused as exc:
                raise Misconfigured(f"The object store refuses: {exc}") from exc
            except BucketError as exc:
                if self._clock.monotonic_ms() >= give_up_ms:
                    raise Unavailable(f"The object store does not answer: {exc}") from exc
                await self.back_off(attempt)
            attempt += 1

    async def back_off(self, attempt: int) -> None:
        """Before the next one."""
        await asyncio.sleep(self._backoff_s(attempt))

    def _backoff_s(self, attempt: int) -> float:
        most = min(BACKOFF_FIRST_MS << min(attempt, 10), BACKOFF_MAX_MS)
        return self._random.uniform(most / 2, most) / 1_000

    async def delete_before(
        self, prefix: str, before: str, *, since: str = "", keep: Set[str] = frozenset()
    ) -> int:
        """Delete the objects from ``prefix``, or from ``since`` on, up to ``before``; how many.
        Raises BucketError.
        """
        found = await self.bucket.list_before(prefix, before)
        names = [name for name in found if name >= since and name not in keep]
        for at in range(0, len(names), DELETES_MAX):
            await self.bucket.delete(names[at : at + DELETES_MAX])
        return len(names)


def refuse_newer(epoch: int, writer: bytes, found: LogObject) -> None:
    """Raises Fenced if another writer has this epoch or a newer one."""
    if found.epoch > epoch or (found.epoch == epoch and found.writer != writer):
        raise Fenced(f"Epoch {epoch} is over: the log is at {found.epoch}, of another writer")
