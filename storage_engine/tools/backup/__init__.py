"""Copies the store of a running engine, and prepares such a copy for a start.

    engine ── snapshot, checkpoint ──▶ [taking] ──▶ TARGET: commitlog/, config/, journal, checkpoint
    copied store ──▶ [adopting] ──▶ a store that an engine may open

Run as a process of its own, ``python -m storage_engine.tools.backup``, which talks in lines of JSON
(``protocol_lines.py``). Consume queues and index are not copied: the log makes them again.
"""
