"""``python -m storage_engine.tools.detach STORE [--again]``: takes a shard off its replicated log.

The shard and its log are what ``MQ_ENGINE_SHARD``, ``MQ_ENGINE_REPLICATED_LOG`` and
``MQ_ENGINE_SNAPSHOT_URL`` tell its engine; ``replication/leave.py`` has what is done. Exit codes: 0
done, 2 it cannot be done, 3 an engine has the store open.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from storage_engine.clock import SystemClock
from storage_engine.config import ENV_PREFIX, StoreConfig, config_from_env
from storage_engine.disk.files import Files
from storage_engine.errors import ConfigInvalid, StoreError, StoreInUse
from storage_engine.recovery.open_checks import claim_store
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.replicated_log.opening import open_shard
from storage_engine.replication.leave import leave_log
from storage_engine.replication.tail import Tail

EXIT_FAILED: Final = 2
EXIT_IN_USE: Final = 3


def main(arguments: list[str] | None = None) -> int:
    """Exit code; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="storage_engine.tools.detach", description=__doc__)
    parser.add_argument("store", type=Path, help="the shard's store here, or an empty directory")
    parser.add_argument("--again", action="store_true", help="it left, and its store is lost")
    options = parser.parse_args(arguments)
    try:
        config = config_from_env({**os.environ, f"{ENV_PREFIX}STORE_DIR": str(options.store)})
        if not config.replicated_log:
            raise ConfigInvalid(f"{ENV_PREFIX}REPLICATED_LOG is not set: name the log to leave")
        tail = asyncio.run(_leave(config, is_again=options.again))
    except StoreInUse as exc:
        print(exc, file=sys.stderr)
        return EXIT_IN_USE
    except (StoreError, OSError) as exc:
        print(exc, file=sys.stderr)
        return EXIT_FAILED
    print(f"{options.store} has the shard up to {tail.log_end} and is served without a log")
    return 0


async def _leave(config: StoreConfig, *, is_again: bool) -> Tail:
    clock, files = SystemClock(), Files()
    replicated_log, snapshots = open_shard(config, clock)
    claim_store(files, config.store_path, config.shard)
    try:
        return await leave_log(
            replicated_log,
            snapshots,
            config.store_path,
            files,
            clock,
            derived=WarmReplica(config, files, clock, None),
            has_left_before=is_again,
        )
    finally:
        await replicated_log.close()


if __name__ == "__main__":
    sys.exit(main())
