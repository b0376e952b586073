"""The process that owns the store: one commit log, and everything derived from it.

    client ──frames──▶ server ──▶ store ──▶ put_path ──▶ log ──▶ segments on disk
                                    │            └── dispatcher ──▶ queues, index
                                    ├──▶ delivery ──▶ leases, consumer offsets
                                    └──▶ queries ──▶ pull, look-ups, offset by time

Packages, low to high, each importing only from those before it (pyproject.toml has the whole
order): ``records`` (a message as bytes), ``groups`` (what a group's settings mean), ``disk`` (files
and maps), ``wire`` (the socket), ``filters`` (which messages are wanted), ``queues`` (consume
queues), ``log`` (the commit log),
``recovery``, then beside each other ``index`` (keys) and ``delivery`` (who has what), and
``verify`` (the check of a store). The modules beside them put these together; ``client`` is the
door for other packages.

No Django, PostgreSQL or Valkey in here: the engine starts, recovers and serves with none of them.
"""
