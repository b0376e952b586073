"""Takes everything out of a copied store that does not belong to some namespaces.

    copy ── recovery, as after every stop ──▶ Store ── delete_namespaces ──▶ STORE.incoming
                                                                                └─ split.json, last

Nobody is served meanwhile and no tick is made, so that nothing becomes due. What is left is as it
was: ids, offsets, settles, retries, dead letters, schedules and keys of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.adopted_store import write_split_number
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, NAMESPACE_HOLDS_FILE, SPLIT_FILE
from storage_engine.store import Store
from storage_engine.tools.backup.file_copy import sync_directories


class Kept(NamedTuple):
    topic_count: int
    group_count: int
    deleted_topic_count: int
    deleted_group_count: int


async def keep_namespaces(
    config: StoreConfig, files: Files, clock: Clock, namespaces: Collection[str], number: int
) -> Kept:
    """Durable on return; the store is ready from then on. ``config``: of the copy, with the shard
    that it is for. Raises ``StoreError``, ``OSError``.
    """
    # Of the shard that was copied, which holds these namespaces and may have come from a split.
    for name in (NAMESPACE_HOLDS_FILE, SPLIT_FILE):
        (config.store_path / CONFIG_DIR / name).unlink(missing_ok=True)
    store = Store(config, clock, files)
    store.open(asyncio.get_running_loop())
    try:
        topic_count, group_count = store.consumption.delete_namespaces(
            lambda name: name not in namespaces
        )
        kept = Kept(
            topic_count=len([name for name in store.catalog.topics if "%" in name]),
            group_count=len(store.catalog.groups),
            deleted_topic_count=topic_count,
            deleted_group_count=group_count,
        )
    finally:
        await store.close()
    sync_directories(config.store_path)
    write_split_number(files, config.store_path, number)
    return kept
