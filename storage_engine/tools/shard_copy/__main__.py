"""``python -m storage_engine.tools.shard_copy DIRECTORY --from-ms MS --reach OFFSET``.

The shard and its bucket are what ``MQ_ENGINE_SHARD``, ``MQ_ENGINE_REPLICATED_LOG`` and
``MQ_ENGINE_SNAPSHOT_URL`` tell its engine. Exit codes are those of ``report``; 0: done.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import SystemClock
from storage_engine.config import ENV_PREFIX, StoreConfig, config_from_env
from storage_engine.errors import ConfigInvalid, StoreError
from storage_engine.replicated_log.errors import LogError, Misconfigured
from storage_engine.replicated_log.opening import open_shard
from storage_engine.replication.shard_copy import ShardCopy, copy_shard
from storage_engine.tools.shard_copy.report import EXIT_REFUSED, EXIT_UNREADABLE, CopyReport

_WAIT_MS: Final = 10_000  # an owner ships within 200 ms, and now and then a request is tried again
_ROOM_TIMES: Final = 2  # of ``disk_enough_bytes``: an engine on this disk deletes nothing early


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_engine.tools.shard_copy", description=__doc__)
    parser.add_argument("directory", type=Path, help="an empty one, or one that is to be made")
    parser.add_argument("--from-ms", type=int, default=0, help="what was stored before may lack")
    parser.add_argument("--reach", type=int, default=0, help="offset that the log will get to")
    options = parser.parse_args(arguments)
    try:
        config = config_from_env({**os.environ, f"{ENV_PREFIX}STORE_DIR": str(options.directory)})
        copied = asyncio.run(_copy(config, from_ms=options.from_ms, reach=options.reach))
    except (ConfigInvalid, Misconfigured) as exc:
        print(exc, file=sys.stderr)
        return EXIT_REFUSED
    except (LogError, StoreError, OSError) as exc:
        print(exc, file=sys.stderr)
        return EXIT_UNREADABLE
    print(msgspec.json.encode(CopyReport(**copied._asdict())).decode())
    return 0


async def _copy(config: StoreConfig, *, from_ms: int, reach: int) -> ShardCopy:
    clock = SystemClock()
    replicated_log, snapshots = open_shard(config, clock)
    try:
        return await copy_shard(
            replicated_log,
            snapshots,
            config.store_path,
            clock,
            from_ms=from_ms,
            reach=reach,
            wait_ms=_WAIT_MS,
            leave_bytes=_ROOM_TIMES * config.disk_enough_bytes,
        )
    finally:
        await replicated_log.close()


if __name__ == "__main__":
    sys.exit(main())
