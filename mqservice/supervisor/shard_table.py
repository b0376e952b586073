"""What PostgreSQL knows of the shards that have a replicated log: who may try to own each.

    node ── beat, claim, give_up ──▶ [ShardTable] ──▶ shards_shard, a row for each shard
    node ── follow ──▶ shards_replica, a row for each shard and node

Every change is one conditional statement, so that of two nodes that want the same one gets it. The
table decides who tries; who owns a shard decides the fence in its replicated log, by the epoch.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

import psycopg

from mqservice.lib.shard_liveness import SILENT_MS
from mqservice.lib.tcp_timeouts import LIBPQ_OPTIONS

CHANNEL: Final = "mq_shards"  # named in the migration too
CONNECT_TIMEOUT_S: Final = 2

_FIND: Final = """
SELECT epoch, owner, address, move_to,
    (extract(epoch FROM clock_timestamp() - heartbeat_at) * 1000)::bigint
FROM shards_shard WHERE name = %(shard)s
"""
_INSERT: Final = """
INSERT INTO shards_shard (name, epoch, owner, heartbeat_at)
VALUES (%(shard)s, %(epoch)s, %(node)s, now()) ON CONFLICT (name) DO NOTHING
"""
# Who only starts again is not heard of by that: its heartbeats say whether it could.
_CLAIM: Final = f"""
UPDATE shards_shard SET epoch = %(epoch)s, owner = %(node)s,
    heartbeat_at = CASE WHEN owner = %(node)s THEN heartbeat_at ELSE now() END
WHERE name = %(shard)s AND epoch = %(seen_epoch)s AND owner = %(seen_owner)s
    AND (owner IN ('', %(node)s) OR heartbeat_at < now() - interval '{SILENT_MS} ms')
"""
_BEAT: Final = f"""
INSERT INTO shards_shard AS known
    (name, epoch, served_epoch, owner, address, heartbeat_at, free_bytes, log_end)
VALUES (%(shard)s, %(epoch)s, CASE %(address)s WHEN '' THEN 0 ELSE %(epoch)s END,
    %(node)s, %(address)s, now(), %(free_bytes)s, %(log_end)s)
ON CONFLICT (name) DO UPDATE SET
    epoch = GREATEST(known.epoch, excluded.epoch), owner = excluded.owner,
    served_epoch = GREATEST(known.served_epoch, excluded.served_epoch),
    address = CASE excluded.address WHEN '' THEN known.address ELSE excluded.address END,
    move_to = CASE WHEN known.move_to = excluded.owner AND excluded.address <> '' THEN ''
        ELSE known.move_to END,
    heartbeat_at = excluded.heartbeat_at, free_bytes = excluded.free_bytes,
    log_end = excluded.log_end
WHERE known.owner IN ('', excluded.owner) OR known.epoch < excluded.epoch
    OR known.heartbeat_at IS NULL OR known.heartbeat_at < now() - interval '{SILENT_MS} ms'
"""
_TRY_ON: Final = """
UPDATE shards_shard SET heartbeat_at = now()
WHERE name = %(shard)s AND owner = %(node)s AND epoch = %(epoch)s
"""
_GIVE_UP: Final = """
UPDATE shards_shard SET owner = '', heartbeat_at = now()
WHERE name = %(shard)s AND owner = %(node)s AND epoch = %(epoch)s
"""
_STAY: Final = "UPDATE shards_shard SET move_to = '' WHERE name = %(shard)s AND owner = %(node)s"
_FOLLOW: Final = """
INSERT INTO shards_replica (shard_id, node, heartbeat_at, log_end, behind_ms)
SELECT name, %(node)s, now(), %(log_end)s, %(behind_ms)s FROM shards_shard WHERE name = %(shard)s
ON CONFLICT (shard_id, node) DO UPDATE SET
    heartbeat_at = excluded.heartbeat_at, log_end = excluded.log_end,
    behind_ms = excluded.behind_ms
"""
_FOLLOWS_NO_MORE: Final = (
    "DELETE FROM shards_replica WHERE shard_id = %(shard)s AND node = %(node)s"
)
_FORGET: Final = "DELETE FROM shards_replica WHERE heartbeat_at < now() - interval '7 days'"


_AUDIT: Final = """
SELECT mq_audit_takeover(%(shard)s, %(node)s, %(previous)s, %(epoch)s, %(reason)s)
"""


class Takeover(NamedTuple):
    """What the audit says of it. ``previous``: the owner before; empty: there was none."""

    epoch: int
    previous: str
    reason: str


class ShardRow(NamedTuple):
    """``silent_ms``: since the last heartbeat; None before the first."""

    epoch: int
    owner: str
    address: str
    move_to: str
    silent_ms: int | None


class ShardTable:
    """One connection, made anew when it breaks. All raise ``psycopg.Error`` or ``OSError`` while
    PostgreSQL is away.
    """

    def __init__(self, database_url: str, *, node: str) -> None:
        self._database_url = database_url
        self._node = node
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None
        self._connecting = asyncio.Lock()

    async def find(self, shard: str) -> ShardRow | None:
        found = await (await self._execute(_FIND, shard)).fetchone()
        return None if found is None else ShardRow._make(found)

    async def claim(self, shard: str, seen: ShardRow | None, *, epoch: int) -> bool:
        """Become who tries to own the shard with this epoch, unless somebody was faster."""
        if seen is None:
            done = await self._execute(_INSERT, shard, epoch=epoch)
        else:
            done = await self._execute(
                _CLAIM, shard, epoch=epoch, seen_epoch=seen.epoch, seen_owner=seen.owner
            )
        if done.rowcount:
            await self._execute(_FOLLOWS_NO_MORE, shard)
        return done.rowcount == 1

    async def beat(
        self, shard: str, *, epoch: int, address: str, free_bytes: int, log_end: int
    ) -> bool:
        """Say that this node owns the shard; ``address`` is empty until it serves. False where
        another one says so, and not with an older epoch.
        """
        done = await self._execute(
            _BEAT, shard, epoch=epoch, address=address, free_bytes=free_bytes, log_end=log_end
        )
        return done.rowcount == 1

    async def try_on(self, shard: str, *, epoch: int) -> None:
        """Say that this node, which has claimed the shard, is still taking it over."""
        await self._execute(_TRY_ON, shard, epoch=epoch)

    async def follow(self, shard: str, *, log_end: int, behind_ms: int) -> None:
        """Say that this node has a replica."""
        await self._execute(_FOLLOW, shard, log_end=log_end, behind_ms=behind_ms)

    async def give_up(self, shard: str, *, epoch: int) -> None:
        await self._execute(_GIVE_UP, shard, epoch=epoch)

    async def audit(self, shard: str, taken: Takeover) -> None:
        """This node has taken the shard over: a row for operators, and for each tenant in it."""
        await self._execute(
            _AUDIT, shard, epoch=taken.epoch, previous=taken.previous, reason=taken.reason
        )

    async def stay(self, shard: str) -> None:
        """The shard cannot be moved now."""
        await self._execute(_STAY, shard)

    async def _execute(
        self, statement: str, shard: str, **values: object
    ) -> psycopg.AsyncCursor[tuple[object, ...]]:
        connection = await self._connected()
        try:
            return await connection.execute(
                statement, {"shard": shard, "node": self._node, **values}
            )
        except psycopg.OperationalError:
            await connection.close()
            raise

    async def _connected(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        async with self._connecting:
            connection = self._connection
            if connection is None or connection.closed:
                connection = self._connection = await self.connect()
                await connection.execute(_FORGET)
            return connection

    async def connect(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        """One more connection, for who listens."""
        return await psycopg.AsyncConnection.connect(
            self._database_url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="mqservice node",
            **LIBPQ_OPTIONS,
        )

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
