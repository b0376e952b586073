"""Real processes whose old segments are only in the bucket: read through the socket, and killed."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlencode

import pytest

from storage_engine.client import (
    Durability,
    GroupConfig,
    OldMessagesUnavailable,
    PullRequest,
    ReceiveRequest,
    StoreClient,
    TopicConfig,
)
from storage_engine.disk.layout import COMMIT_LOG_DIR, base_offsets_in
from tests.sizes import IS_TORTURE, sized
from tests.storage_engine.engines import READY_TRIES, pull_all
from tests.storage_engine.kills.outcomes import Outcome
from tests.storage_engine.replicated_log.log_kinds import new_s3_bucket
from tests.storage_engine.replication.takeovers import Shard, broken_promises, run_takeovers
from tests.storage_engine.replication.test_owners import ACKED_EACH, SEED, put

OLD: Final = {
    "MQ_ENGINE_SEGMENT_BYTES": "8192",
    "MQ_ENGINE_LOCAL_RETENTION_BYTES": "16384",
    "MQ_ENGINE_LOCAL_CACHE_BYTES": "24576",
    "MQ_ENGINE_RETENTION_INTERVAL_MS": "50",
}


@contextmanager
def old_shard(url: str = "") -> Iterator[tuple[Shard, StoreClient, list[bytes]]]:
    """Most of its messages are only in the bucket, a directory ``snapshots`` of its own, or what
    ``url`` names, which has its log too.
    """
    with Shard(**OLD) as shard:
        bucket = shard.directory / "snapshots"
        bucket.mkdir()
        shard.kill()
        if url:
            shutil.rmtree(shard.store_dir)
            shard._environment["MQ_ENGINE_REPLICATED_LOG"] = url
        else:
            shard._environment["MQ_ENGINE_SNAPSHOT_URL"] = bucket.as_uri()
        shard.start()
        with shard.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=1, durability=Durability.REPLICATED)
            )
            client.group_put(GroupConfig(group="g"))
            bodies = [b"%d " % number * 300 for number in range(60)]
            for body in bodies:
                put(client, body)
            for _ in range(READY_TRIES):
                if len(base_offsets_in(shard.store_dir / COMMIT_LOG_DIR)) <= 3:
                    break
                threading.Event().wait(0.02)
            else:
                raise AssertionError(f"nothing was left to the bucket:\n{shard.log.read_text()}")
            yield shard, client, bodies


def test_old_messages_are_read_through_the_socket_unless_the_bucket_is_away() -> None:
    with old_shard() as (shard, client, bodies):
        assert pull_all(client, 0) == bodies
        got: list[bytes] = []
        while len(got) < len(bodies):
            found = client.receive(
                ReceiveRequest(
                    group="g", topic="t", member_id="m", messages_max=16, bytes_max=1 << 20,
                    wait_ms=1_000, lease_ms=60_000,
                )
            )  # fmt: skip
            got += [record.body for record in found.records]
        assert got == bodies
        # While the bucket is away old reads are told so, and others go on.
        bucket = shard.directory / "snapshots"
        bucket.rename(shard.directory / "away")
        shard.kill()
        shard.start()
        old = PullRequest(topic="t", queue_id=0, queue_offset=0, messages_max=4, bytes_max=1 << 20)
        with pytest.raises(OldMessagesUnavailable, match="only in the bucket"):
            client.pull(old)
        put(client, b"new")
        new = PullRequest(topic="t", queue_id=0, queue_offset=60, messages_max=4, bytes_max=1 << 20)
        assert [record.body for record in client.pull(new)[1]] == [b"new"]
        (shard.directory / "away").rename(bucket)
        assert pull_all(client, 0) == [*bodies, b"new"]


def test_an_empty_machine_serves_what_s3_has() -> None:
    """Log, snapshots and old segments, through the client library that reaches S3 itself."""
    url, options = new_s3_bucket()
    with old_shard(f"{url}?{urlencode(options)}") as (shard, client, bodies):
        assert pull_all(client, 0) == bodies
        shard.kill()
        shard.choose_empty_disk()
        shard.hand_to_replica()
        shard.start()
        assert shard.logged("snapshot_restored") == 1
        assert pull_all(client, 0) == bodies
        put(client, b"more")
        assert pull_all(client, 0) == [*bodies, b"more"]


@pytest.mark.torture
@pytest.mark.sized
def test_no_acknowledged_message_is_lost_where_old_segments_are_in_the_bucket() -> None:
    count = sized(1, torture=60)
    history, _ = run_takeovers(
        count, seed=SEED, acked_each=3 * ACKED_EACH, is_patient=IS_TORTURE, **OLD
    )
    assert broken_promises(history) == []
    assert history.count(Outcome.ACKED) >= 3 * ACKED_EACH * count
