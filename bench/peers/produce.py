"""Producing over REST and over sockets: what is sent where, and a topic for nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.peer import Way
from bench.peers.turns import Turn


class ProduceTurn(Turn):
    """``batch`` messages a request to one topic, or to many in turn where ``topics`` are given."""

    def __init__(
        self, way: Way, name: str, *, body: bytes, batch: int, topics: Sequence[str] = ()
    ) -> None:
        self.facts = way.facts
        self.topics = topics or [name]
        self.bodies = [body] * batch
        self._producing = way
        self._own_topic = "" if topics else name
        self._is_made = False

    async def make_topic(self) -> None:
        """Unless the topics are there already."""
        if self._own_topic:
            await self._producing.make_topic(self._own_topic)
            self._is_made = True

    async def finish(self) -> None:
        if self._is_made:
            await self._producing.drop_topic(self._own_topic)
