"""Ends what is left of splits whose command is gone, or was too slow."""

from __future__ import annotations

import logging

from mqservice.celery import app
from mqservice.shards.splits import find_left, resolve
from mqservice.store import StoreError

log = logging.getLogger(__name__)


@app.task(name="shards.resolve_splits", soft_time_limit=25, time_limit=30)
def resolve_splits() -> None:
    """The source serves the namespaces again and the target deletes what it has of them, or the
    other way round: as was decided.
    """
    for split in find_left():
        try:
            resolve(split)
        except StoreError as exc:
            log.warning(
                "The engine of a shard that is split does not answer; trying again soon",
                extra={
                    "action": "split_not_resolved",
                    "source": split.source,
                    "target": split.target,
                    "error": type(exc).__name__,
                },
            )
