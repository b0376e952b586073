"""Backups of a running installation: created, checked, restored.

    engine's store ──┐                                   ┌──▶ a new data directory's store
    PostgreSQL ──────┼──▶ DIRECTORY/ manifest.json … ────┼──▶ an empty database
    secrets.toml ────┘                                   └──▶ secrets.toml

    manifest.json         what is in it, the SHA-256 of each file; written last
    manifest.json.sha256  its own, as ``sha256sum --check`` reads it
    store/                the engine's files, see ``storage_engine/tools/backup``
    database.dump         pg_dump's custom format
    secrets.toml          of ``mqservice up``; in containers secrets are in the environment

Nothing in here imports Django: it is started as a program, where the service may not run.
"""
