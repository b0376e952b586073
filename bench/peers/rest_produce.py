"""Producing over REST with wrk, the same for every peer: whole requests, keep-alive connections."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.http_client import LeanHttp
from bench.peers.peer import RestWay
from bench.peers.produce import ProduceTurn
from bench.peers.turns import Measured, Timing
from bench.peers.usage import UsageMeter
from bench.wrk import WrkResult, run_requests, write_requests

CONNECTIONS: Final = 64
BATCH_CONNECTIONS: Final = 16


class RestProduceTurn(ProduceTurn):
    """As fast as wrk does it."""

    def __init__(
        self, way: RestWay, name: str, *, body: bytes, batch: int, topics: Sequence[str] = ()
    ) -> None:
        super().__init__(way, name, body=body, batch=batch, topics=topics)
        self._way = way
        self._directory = tempfile.TemporaryDirectory(prefix="requests-")
        self._path = Path(self._directory.name) / "requests"

    async def prepare(self, timing: Timing) -> None:
        await self.make_topic()
        requests = self._way.requests(self.topics, self.bodies)
        # wrk looks at the status only.
        http = await LeanHttp.connect(self._way.base_url, key="")
        try:
            self._way.check_stored(await http.send_whole(requests[0]))
        finally:
            http.close()
        write_requests(self._path, requests)
        await self._load(timing.warm_up_seconds)

    async def once(self, timing: Timing) -> Measured:
        meter = UsageMeter(self._way.roots)
        result = await self._load(timing.seconds)
        return Measured(
            value=result.rate * len(self.bodies),
            usage=meter.stop(),
            extra={
                "p50_ms": round(result.p50_us / 1_000, 2),
                "p99_ms": round(result.p99_us / 1_000, 2),
            },
        )

    async def finish(self) -> None:
        self._directory.cleanup()
        await super().finish()

    async def _load(self, seconds: float) -> WrkResult:
        return await run_requests(
            self._way.base_url,
            self._path,
            connections=CONNECTIONS if len(self.bodies) == 1 else BATCH_CONNECTIONS,
            duration_ms=round(seconds * 1_000),
        )
