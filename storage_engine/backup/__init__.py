"""Takes a copy of a running engine's store, and makes such a copy fit to be started.

    engine ── snapshot, checkpoint ──▶ [taking] ──▶ TARGET: commitlog/, config/, journal, checkpoint
    copied store ──▶ [adopting] ──▶ a store that an engine may open

Run as a process of its own, ``python -m storage_engine.backup``, which talks in lines of JSON
(``lines.py``). Consume queues and index are not copied: the log makes them again.
"""
