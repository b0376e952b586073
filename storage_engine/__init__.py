"""The process that owns the store: one commit log, and everything derived from it.

    client ──frames──▶ server ──▶ store ──▶ commit_log ──▶ segments on disk
                                    │            └─ flusher (group commit)
                                    ├──▶ dispatcher ──▶ consume_queues
                                    └──▶ delivery ──▶ leases, consumer_offsets

Layers, low to high; a module imports only from the ones before it:
errors clock config layout · record protocol · files mapped_file mapped_files · checkpoint ·
commit_log consume_queue consume_queues consumer_offsets · flusher dispatcher recovery ·
arrivals delivery store · server client · dump testing.

No Django, PostgreSQL or Valkey in here: the engine starts, recovers and serves with none of them.
"""
