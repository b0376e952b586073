"""The end of a store as a kill -9 makes it, inside the test process: the one place that knows how.

Threads end and maps are closed; nothing is flushed, synced or written, and nobody is answered.
"""

from __future__ import annotations

from storage_engine.store import Store


def kill(store: Store) -> None:
    """Let go of everything without changing a byte on disk."""
    store.durability._flusher.stop()
    # A repair that sleeps would wake in the next store's time and write over its files.
    if store.durability._repair is not None:
        store.durability._repair.cancel()
    store._prefaulter.stop()
    store._close_files()
