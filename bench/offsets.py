"""Consumer offsets from the engine into PostgreSQL: how long 100,000 changed ones take.

engine, 100,000 queues committed ──▶ persist_offsets ──▶ PostgreSQL that syncs

Both are real processes. Rows are written first (all new), then all of them changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.measure import Plan, Row, Run, row_of
from bench.processes import engine_running, scratch_directory
from mqservice.supervisor import binaries
from mqservice.supervisor.child import Child
from mqservice.supervisor.output import Output
from mqservice.supervisor.ports import find_free_port
from mqservice.supervisor.postgres import PostgresServer
from storage_engine.client import (
    GroupConfig,
    OffsetCommitRequest,
    StoreClient,
    StoreMessage,
    TopicConfig,
    encode_record,
    new_message_id,
)

WORKLOAD: Final = "offsets"
NAMESPACE: Final = "bench"
TOPICS: Final = 10
QUEUES: Final = 100
GROUPS: Final = 100
ROWS: Final = TOPICS * QUEUES * GROUPS
MESSAGES: Final = 8  # of each queue: as many times all offsets can change
SECONDS_WANTED: Final = 1.0
PASSWORD: Final = "bench-password"


async def measure(plan: Plan, base: Path) -> list[Row]:
    # PostgreSQL may have to run as another user, which uvloop cannot do.
    return await asyncio.to_thread(asyncio.run, _measure_beside(plan, base))


async def _measure_beside(plan: Plan, base: Path) -> list[Row]:
    with scratch_directory("pg", base) as directory:
        account = binaries.server_account()
        server = PostgresServer(
            directory=directory / "pg",
            port=find_free_port(),
            programs=binaries.find_postgres(account),
            account=account,
            admin_password=PASSWORD,
            password=PASSWORD,
        )
        await asyncio.to_thread(server.prepare)
        (directory / "log").mkdir()
        output = Output(directory / "log", is_quiet=True)
        child = Child(
            server.child_spec({}), output, on_change=lambda: None, on_fatal=lambda ending: None
        )
        await child.start()
        try:
            await server.ensure_database()
            async with engine_running(base) as engine:
                new, changed = await asyncio.to_thread(
                    _measure, plan, server.url, engine.socket_path
                )
        finally:
            await child.stop()
            output.close()
    setting = f"{ROWS:,} queues of {GROUPS} groups; PostgreSQL syncs; pages of 10,000 rows"
    return [
        row_of(
            runs, workload=WORKLOAD, name=name, unit="s", setting=setting, target=SECONDS_WANTED,
            is_less_better=True,
        )
        for name, runs in (("persist new offsets", new), ("persist changed offsets", changed))
    ]  # fmt: skip


def _measure(plan: Plan, dsn: str, socket_path: str) -> tuple[list[Run], list[Run]]:
    os.environ.setdefault("MQ_SECRET_KEY", "only-for-measuring-0123456789-0123456789")
    os.environ["DATABASE_URL"] = dsn
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from mqservice.accounts.services import get_or_create_namespace, get_or_create_tenant
    from mqservice.sampling.models import ConsumerOffset, OffsetFeedPlace
    from mqservice.sampling.offsets import persist_offsets

    call_command("migrate", verbosity=0)
    get_or_create_namespace(get_or_create_tenant(NAMESPACE), NAMESPACE)
    new: list[Run] = []
    changed: list[Run] = []
    repeats = min(plan.repeats, MESSAGES - 1)
    with StoreClient(socket_path, client_name="bench", timeout_ms=60_000) as client:
        _fill(client)
        _commit(client, 1)
        for _ in range(repeats):
            ConsumerOffset.objects.all().delete()
            OffsetFeedPlace.objects.all().delete()
            with _timed(new):
                assert persist_offsets(client, 1).row_count == ROWS
        for number in range(repeats):
            _commit(client, 2 + number)
            with _timed(changed):
                assert persist_offsets(client, 2).row_count == ROWS
    assert ConsumerOffset.objects.filter(consumer_offset=1 + repeats).count() == ROWS
    connection.close()
    return new, changed


@contextmanager
def _timed(runs: list[Run]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    runs.append(Run(rate=time.perf_counter() - begun))


def _fill(client: StoreClient) -> None:
    for topic in range(TOPICS):
        client.topic_put(TopicConfig(topic=f"{NAMESPACE}%t{topic}", queue_count=QUEUES))
        records = [
            encode_record(
                StoreMessage(
                    topic=f"{NAMESPACE}%t{topic}", queue_id=queue_id, body=b"x", tag=None, keys=[],
                    message_group=None, properties={}, born_timestamp_ms=1,
                    born_host=("127.0.0.1", 1), message_id=new_message_id(),
                )
            )
            for queue_id in range(QUEUES)
            for _ in range(MESSAGES)
        ]  # fmt: skip
        client.put(records)
    for group in range(GROUPS):
        client.group_put(GroupConfig(group=f"{NAMESPACE}%g{group}"))


def _commit(client: StoreClient, offset: int) -> None:
    """Let every group be at ``offset`` of every queue."""
    for group in range(GROUPS):
        for topic in range(TOPICS):
            for queue_id in range(QUEUES):
                client.offset_commit(
                    OffsetCommitRequest(
                        group=f"{NAMESPACE}%g{group}",
                        topic=f"{NAMESPACE}%t{topic}",
                        queue_id=queue_id,
                        offset=offset,
                    )
                )
