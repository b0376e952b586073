"""When a shard's node, or a replica of it, counts as gone: for nodes and web processes alike."""

from __future__ import annotations

from typing import Final

from mqservice.lib.durations import SECOND_MS

HEARTBEAT_MS: Final = 1 * SECOND_MS
SILENT_MS: Final = 5 * SECOND_MS  # without a heartbeat; then its shards are up for taking
# A replica that has not seen the end of its log for longer does not know whether it can reach it.
BEHIND_MS_MAX: Final = 10 * SECOND_MS
