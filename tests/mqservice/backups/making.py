"""Small installations for tests of backups: an engine with tiny segments, a database of two tables.

A database counts as the service's when it has the tables of topics and groups.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from mqservice.backups.creating import create
from mqservice.backups.installation import Installation
from mqservice.backups.manifest import Manifest
from storage_engine.client import encode_record
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import Engine

TABLES = """
    CREATE TABLE topics_topic (id serial PRIMARY KEY, name text NOT NULL);
    CREATE TABLE groups_consumergroup (id serial PRIMARY KEY, name text NOT NULL);
    INSERT INTO topics_topic (name) SELECT 't' || n FROM generate_series(1, 1000) AS n;
"""
_numbers = itertools.count(1)


@contextlib.contextmanager
def scratch_database(server_url: str, content: str = "") -> Iterator[str]:
    """The URL of a database of its own; dropped at the end."""
    name = f"backup_{os.getpid()}_{next(_numbers)}"
    with contextlib.closing(psycopg.connect(server_url, autocommit=True)) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            url = f"{server_url.rpartition('/')[0]}/{name}"
            if content:
                with psycopg.connect(url) as filling:
                    filling.execute(content.encode())
            yield url
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))


def topic_names(url: str) -> list[str]:
    with contextlib.closing(psycopg.connect(url)) as connection:
        rows = connection.execute("SELECT name FROM topics_topic ORDER BY id").fetchall()
    return [row[0] for row in rows]


def fill(engine: Engine, count: int, *, size: int = 4_000) -> list[bytes]:
    """Put messages into queue 0 of topic ``t``; their bodies."""
    bodies = [b"%06d" % number + b"x" * size for number in range(count)]
    with engine.client() as client:
        for first in range(0, count, 4):
            results = client.put([encode_record(message(each)) for each in bodies[first:][:4]])
            assert all(result.error is None for result in results)
    return bodies


def environment(engine: Engine, url: str) -> dict[str, str]:
    """That of a process of the service, as in a container."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MQ_")}
    return {
        **clean,
        "MQ_SECRET_KEY": "k" * 40,
        "DATABASE_URL": url,
        "MQ_ENGINE_STORE_DIR": str(engine.store_dir),
        "MQ_ENGINE_SOCKET": engine.socket,
    }


def backup_of(engine: Engine, url: str, target: Path, *, base: Path | None = None) -> Manifest:
    """Make one; the installation has a file of secrets."""
    secrets = engine.directory / "secrets.toml"
    secrets.write_text('django_key = "secret"\n')
    installation = Installation(
        store=engine.store_dir, engine_socket=engine.socket, database_url=url, secrets=secrets
    )
    return create(
        environment(engine, url), installation, target, base=base, rate_bytes=0, on_progress=ignored
    )


def ignored(done_bytes: int, total_bytes: int) -> None:
    """Nobody looks at the progress."""
