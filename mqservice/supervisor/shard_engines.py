"""The engines that this machine runs besides the main one, and how others hear of them.

MQ_SHARDS=main,s2,s3=tls://10.0.0.5:7703 ──▶ [read_shards] ──▶ a child for each, its store below
MQ_STANDBY=s4=tls://10.0.0.5:7704                              DATA_DIR/shards/NAME
every second, of those that run ──▶ [Heartbeats] ──▶ row of the shard: address, owner, free disk

Where the shards have a replicated log, ``shard_owners.py`` does this and more.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from mqservice.lib.names import MAIN_SHARD, name_fault
from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE, has_replicated_log
from mqservice.lib.shard_liveness import HEARTBEAT_MS, SILENT_MS
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid

CONNECT_TIMEOUT_S: Final = 2
# Another node's, as long as it is heard of.
_BEAT: Final = f"""
INSERT INTO shards_shard AS known (name, address, owner, heartbeat_at, free_bytes)
VALUES (%s, %s, %s, now(), %s)
ON CONFLICT (name) DO UPDATE SET
    address = excluded.address, owner = excluded.owner, heartbeat_at = excluded.heartbeat_at,
    free_bytes = excluded.free_bytes
WHERE known.owner IN ('', excluded.owner) OR known.heartbeat_at IS NULL
    OR known.heartbeat_at < now() - interval '{SILENT_MS} ms'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlace:
    """A shard of this machine. ``address``: where others reach it; empty: on its unix socket.
    ``is_home``: it is this machine's from the start, and not only when its owner is gone.
    """

    name: str
    address: str
    store: Path
    socket: Path
    control: Path
    is_home: bool = True

    @property
    def published(self) -> str:
        return self.address or str(self.socket)

    def engine_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """What its engine is told, beside what the main one is told too."""
        listens = {"MQ_ENGINE_LISTEN": _listening(self.address, env)} if self.address else {}
        if has_replicated_log(env):
            listens["MQ_ENGINE_CONTROL"] = str(self.control)
        return {
            "MQ_ENGINE_SHARD": self.name,
            "MQ_ENGINE_STORE_DIR": str(self.store),
            "MQ_ENGINE_SOCKET": str(self.socket),
            **listens,
        }


def read_places(
    config: SupervisorConfig, data_dir: DataDir, env: Mapping[str, str]
) -> list[ShardPlace]:
    """Those that ``MQ_SHARDS`` and ``MQ_STANDBY`` name. Raises ConfigInvalid."""
    places = read_shards(config.shards, data_dir)
    standby = read_shards(config.standby, data_dir, variable="MQ_STANDBY")
    if standby and not has_replicated_log(env):
        raise ConfigInvalid(
            f"MQ_STANDBY needs {REPLICATED_LOG_VARIABLE}, the log that owners ship to: without it "
            "there is nothing that this machine could follow."
        )
    for place in standby:
        if place.name in {each.name for each in places}:
            raise ConfigInvalid(
                f"MQ_STANDBY and MQ_SHARDS both name {place.name}: with a replicated log each "
                "machine that has a shard in MQ_SHARDS can take it over too."
            )
        if not place.address:
            raise ConfigInvalid(
                f"MQ_STANDBY must say where others reach {place.name} once this machine owns it, "
                f"such as {place.name}=tls://HOST:PORT."
            )
    return [*places, *standby]


def read_shards(text: str, data_dir: DataDir, *, variable: str = "MQ_SHARDS") -> list[ShardPlace]:
    """Those that ``variable`` names; none where it is empty. Raises ConfigInvalid."""
    places: dict[str, ShardPlace] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, address = part.partition("=")
        if fault := name_fault(name):
            raise ConfigInvalid(f"{variable} names a shard {name!r}: {fault}.")
        if address and not address.startswith(("tcp://", "tls://")):
            raise ConfigInvalid(
                f"{variable}: the address of {name} must begin with tcp:// or tls://, "
                f"not {address}."
            )
        if name in places:
            raise ConfigInvalid(f"{variable} names {name} twice.")
        is_main = name == MAIN_SHARD
        places[name] = ShardPlace(
            name=name,
            address=address,
            store=data_dir.store if is_main else data_dir.shards / name / "store",
            socket=data_dir.socket_of(name),
            control=data_dir.control_of(name),
            is_home=variable == "MQ_SHARDS",
        )
    return list(places.values())


def place_of_shard(name: str, data_dir: DataDir) -> ShardPlace:
    """Of one that a command names. Raises ConfigInvalid: it cannot be a shard's name."""
    if fault := name_fault(name):
        raise ConfigInvalid(f"{name!r} is not the name of a shard: {fault}.")
    return read_shards(name, data_dir)[0]


def _listening(address: str, env: Mapping[str, str]) -> str:
    """Where the engine itself listens: what others reach may be another address of this machine."""
    bind = env.get("MQ_SHARD_BIND")
    if not bind:
        return address
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{bind}:{rest.rpartition(':')[2]}"


class Heartbeats:
    """See the module's docstring. ``running``: the names of the shards whose engines run now."""

    def __init__(
        self,
        places: Iterable[ShardPlace],
        *,
        database_url: str,
        owner: str,
        running: Callable[[], set[str]],
        note: Callable[[str], None],
    ) -> None:
        self._places = list(places)
        self._database_url = database_url
        self._owner = owner or socket.gethostname()
        self._running = running
        self._note = note
        self._said = ""

    async def run(self) -> None:
        """Until cancelled. While PostgreSQL is away the engines serve on, and it is tried again."""
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self._database_url,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    application_name="mqservice node",
                )
                async with connection:
                    while True:
                        await self._beat(connection)
                        await asyncio.sleep(HEARTBEAT_MS / 1_000)
            except (psycopg.Error, OSError) as error:
                self._say(f"cannot tell the database where the shards are: {error}")
            await asyncio.sleep(HEARTBEAT_MS / 1_000)

    async def _beat(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        running = self._running()
        refused = []
        for place in self._places:
            if place.name not in running:
                continue
            free_bytes = shutil.disk_usage(place.store).free
            row = place.name, place.published, self._owner, free_bytes
            if not (await connection.execute(_BEAT, row)).rowcount:
                refused.append(place.name)
        whose = f"another node owns {', '.join(refused)}; stop one of the two engines"
        self._say(whose if refused else "")

    def _say(self, text: str) -> None:
        """Once, and not each second."""
        if text and text != self._said:
            self._note(text)
        self._said = text
