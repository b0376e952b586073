"""``python -m mqservice.supervisor.node_ready``: whether another node may be stopped now.

    MQ_SHARDS, MQ_STANDBY ─▶ the process of each shard of this machine ─▶ a line for each, exit code

Exit codes: 0 each shard of this machine is served here, or has a replica here that could take it
over; 1 one is not yet; 2 the settings are wrong. For health checks of containers, from the node's
own environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from mqservice.supervisor.config import config_from_env
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.engine_control import EngineControl, could_take_over
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.shard_engines import ShardPlace, read_places
from storage_engine.wire.role import Phase, RoleStatus


def is_ready(status: RoleStatus | None) -> bool:
    """Of the process of a shard; None: there is none."""
    return status is not None and (status.phase is Phase.OWNER or could_take_over(status))


async def check(places: list[ShardPlace]) -> int:
    """The exit code; prints what each is."""
    found = await asyncio.gather(*(EngineControl(place.control).status() for place in places))
    for place, status in zip(places, found, strict=True):
        print(f"{place.name}: {_text(status)}")
    return 0 if all(map(is_ready, found)) else 1


def _text(status: RoleStatus | None) -> str:
    if status is None:
        return "not running"
    if status.phase is not Phase.FOLLOWING:
        return f"{status.phase.value}, epoch {status.epoch}"
    if status.behind_ms < 0:
        return "following, not at the end of the log yet"
    return f"following, {status.behind_ms} ms behind"


def main(env: Mapping[str, str]) -> int:
    """The exit code."""
    try:
        config = config_from_env(env)
        places = read_places(config, DataDir(config.data_dir), env)
    except ConfigInvalid as error:
        print(f"mqservice: {error}", file=sys.stderr)
        return 2
    return asyncio.run(check(places))


if __name__ == "__main__":
    sys.exit(main(os.environ))
