"""A machine that runs engines and replicas of shards and nothing else.

lock, database ▶ [engine-*] ▶ heartbeats, until told to stop ▶ the same backwards
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from mqservice.supervisor import processes
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import DataDir, DataDirLock
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.output import Output
from mqservice.supervisor.postgres import wait_for_external
from mqservice.supervisor.shard_engines import read_places
from mqservice.supervisor.supervisor import EXTERNAL_WAIT_MS, Supervisor


def run_node(config: SupervisorConfig, env: Mapping[str, str], *, is_quiet: bool) -> int:
    """Runs until told to stop. Returns the exit code: 0 after an ordered stop.

    Raises SupervisorError when it could not start; everything it had started is stopped by then.
    """
    data_dir = DataDir(config.data_dir)
    places = read_places(config, data_dir, env)
    if not places or config.database_url is None:
        raise ConfigInvalid(
            "A node needs MQ_SHARDS or MQ_STANDBY, the shards that it runs or could take over, and "
            "DATABASE_URL, where it says so."
        )
    unreachable = [place.name for place in places if not place.address]
    if unreachable:
        raise ConfigInvalid(
            f"MQ_SHARDS must say where others reach {', '.join(unreachable)}, "
            f"such as {unreachable[0]}=tls://HOST:PORT."
        )
    data_dir.create(segment_bytes=processes.segment_bytes(env))
    lock = DataDirLock(data_dir)
    try:
        lock.acquire()
        output = Output(data_dir.logs, is_quiet=is_quiet, console=sys.stdout)
        try:
            return asyncio.run(Node(config, env, output).run())
        finally:
            output.close()
    finally:
        lock.release()


class Node(Supervisor):
    """One run of the engines."""

    async def _start(self) -> None:
        config, data_dir = self._config, self._data_dir
        assert config.database_url is not None, "run_node has checked it"
        await wait_for_external(config.database_url, timeout_ms=EXTERNAL_WAIT_MS)
        self._remove_old_sockets()
        env = {
            **self._env,
            "PYTHONUNBUFFERED": "1",
            "MQ_ENGINE_STORE_DIR": str(data_dir.store),
            "MQ_ENGINE_SOCKET": str(data_dir.engine_socket),
        }
        ports = processes.engine_metrics_ports(self._env, dict.fromkeys(self._shard_names(), 0))
        await self._start_engines(env, ports)
        await self._start_heartbeats(config.database_url)
        names = ", ".join(place.name for place in self._places)
        self._output.note(f"running the shards {names}")
