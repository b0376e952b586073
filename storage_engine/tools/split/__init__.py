"""Makes of a running shard's store the store that another shard begins with.

    engine ── snapshot, checkpoint ──▶ [StoreCopy] rounds ──▶ STORE.incoming, all of it
    namespaces are held ── last round ──▶ [keep_namespaces] ──▶ without all other topics and groups

Run as a process of its own, ``python -m storage_engine.tools.split``, which talks in lines of JSON
(``protocol_lines.py``).
"""
