"""The setting that gives every shard a replicated log, and what an engine is told of it.

    MQ_REPLICATED_LOG=s3://bucket/prefix ──▶ MQ_ENGINE_REPLICATED_LOG of each engine

Each shard has a place of its own below the URL, which the engine itself makes of the shard's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REPLICATED_LOG_VARIABLE: Final = "MQ_REPLICATED_LOG"
_OF_THE_ENGINE: Final = "MQ_ENGINE_REPLICATED_LOG"
# What the stores' own libraries read: without a log an engine is told no credentials.
_CREDENTIALS: Final = ("AWS_", "GOOGLE_", "AZURE_")


def has_replicated_log(env: Mapping[str, str]) -> bool:
    """Whether the engines that are made of this environment ship their stores to one."""
    return bool(env.get(REPLICATED_LOG_VARIABLE))


def engine_log_env(env: Mapping[str, str]) -> dict[str, str]:
    """What an engine needs to reach its log; nothing where there is none."""
    url = env.get(REPLICATED_LOG_VARIABLE)
    if not url:
        return {}
    credentials = {name: env[name] for name in env if name.startswith(_CREDENTIALS)}
    return {**credentials, _OF_THE_ENGINE: url}
