"""A bucket in memory whose operations take effect in an order that a seed decides, now and then
with a fault. An operation goes on when nobody waits for it any more, as a request on its way does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeVar

from storage_engine.replicated_log.bucket import BucketUnreachable, Found, Version

_T = TypeVar("_T")
TURNS_MAX: Final = 12
STALLED_TURNS: Final = 3_000  # longer than whole reigns
STALLED_RATE: Final = 0.01


class InterleavedBucket:
    """``fault_rate``: of each kind of fault an operation can have."""

    linger_ms = 0

    def __init__(self, random: Random, *, fault_rate: float) -> None:
        self._random = random
        self._fault_rate = fault_rate
        self._on_their_way: set[asyncio.Task[object]] = set()
        self.objects: dict[str, Found] = {}
        self.fired: Counter[str] = Counter()
        self._writes = 0

    async def get(self, name: str) -> Found | None:
        found = await self._done(lambda: self.objects.get(name))
        if found is not None and self._has_fault("truncated"):
            return Found(found.content[: len(found.content) // 2], found.version)
        return found

    async def exists(self, name: str) -> bool:
        return await self._done(lambda: name in self.objects)

    async def put(self, name: str, content: bytes, *, version: Version | None) -> bool:
        if self._has_fault("conflict"):
            await self._pass_time()
            return False

        def put_now() -> bool:
            found = self.objects.get(name)
            if (found.version if found else None) != version:
                return False
            self._writes += 1
            self.objects[name] = Found(content, (str(self._writes), None))
            return True

        return await self._done(put_now)

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            await self._done(lambda name=name: self.objects.pop(name, None))  # type: ignore[misc]  # reason: bound early on purpose

    async def list_before(self, prefix: str, before: str) -> list[str]:
        """Lags: every other name is missing, now and then."""
        names = await self._done(lambda: [n for n in self.objects if prefix <= n < before])
        return names[::2] if self._has_fault("lagging list") else names

    async def settle(self) -> None:
        """Let everything that is on its way arrive."""
        while self._on_their_way:
            await asyncio.wait(self._on_their_way)

    def _has_fault(self, name: str) -> bool:
        if self._random.random() >= self._fault_rate:
            return False
        self.fired[name] += 1
        return True

    async def _done(self, effect: Callable[[], _T]) -> _T:
        task = asyncio.ensure_future(self._arrive(effect))
        self._on_their_way.add(task)
        task.add_done_callback(self._on_their_way.discard)
        return await asyncio.shield(task)

    async def _arrive(self, effect: Callable[[], _T]) -> _T:
        await self._pass_time()
        if self._has_fault("503"):
            raise BucketUnreachable("503")
        result = effect()
        await self._pass_time()
        if self._has_fault("timeout after success"):
            raise BucketUnreachable("timeout")
        return result

    async def _pass_time(self) -> None:
        is_stalled = self._random.random() < STALLED_RATE
        for _ in range(self._random.randrange(STALLED_TURNS if is_stalled else TURNS_MAX)):
            await asyncio.sleep(0)
