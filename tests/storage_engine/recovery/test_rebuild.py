"""Consume queues and index made anew from the log are those that were made while putting."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from storage_engine.clock import SystemClock
from storage_engine.records.message_id import new_message_id
from storage_engine.records.record import StoreMessage
from storage_engine.recovery import rebuild
from storage_engine.store import Store
from tests.storage_engine.doubles import OpenStore, copy_store, fingerprint
from tests.storage_engine.mixed_store import config, fill

RECORDS = 5_000


def derived(store_dir: Path) -> dict[str, bytes]:
    return {
        name: content
        for name, content in fingerprint(store_dir).items()
        if name.startswith(("consumequeue/", "index/"))
    }


def without_derived(store_dir: Path, target: Path) -> Path:
    copied = copy_store(store_dir, target)
    (copied / "checkpoint").unlink()
    for name in ("consumequeue", "index"):
        shutil.rmtree(copied / name)
    return copied


# Limits of what is remembered of like records, as it is and so tight that it never helps long.
@pytest.mark.parametrize(("likes_max", "batch"), [(1_024, 2_048), (2, 7)])
async def test_records_of_every_kind_get_the_same_units_and_keys_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, likes_max: int, batch: int
) -> None:
    monkeypatch.setattr(rebuild, "_TEMPLATES_MAX", likes_max)
    monkeypatch.setattr(rebuild, "BATCH_RECORDS", batch)
    await fill(tmp_path / "live", RECORDS)
    copied = without_derived(tmp_path / "live", tmp_path / "copied")
    store = Store(config(copied), SystemClock())
    recovered = store.open(asyncio.get_running_loop())
    await store.close()
    assert recovered.record_count == RECORDS
    expected = derived(tmp_path / "live")
    assert len(expected) == 10
    assert derived(copied) == expected


async def test_records_that_differ_in_what_looks_the_same_are_distinguished(tmp_path: Path) -> None:
    ids = [new_message_id() for _ in range(8)]
    odd = "TAGS" + "x" * (len(ids[0]) - 4)
    messages = [
        message("t", ids[0]),
        message("t", ids[1]),
        message("t", ids[2], tag="a"),
        message("t", ids[3], keys=["k", "l"]),
        message("t", ids[4], keys=["k", "l"]),
        message("t", ids[5], tag="a", keys=["k"]),
        message("t", odd),
        message("t", "short"),
        message("t", "short"),
        message("u", ids[6]),
        message("t", ids[7], host="::1"),
        message("t", ids[7], queue_id=1),
        message("t", ids[0]),
    ]
    async with OpenStore(tmp_path / "live") as store:
        store.topic(queues=2)
        store.topic("u")
        for each in messages:
            await store.put(each)
    copied = without_derived(tmp_path / "live", tmp_path / "copied")
    async with OpenStore(copied):
        pass
    assert derived(copied) == derived(tmp_path / "live")


def message(
    topic: str,
    message_id: str,
    *,
    tag: str | None = None,
    keys: list[str] | None = None,
    host: str = "127.0.0.1",
    queue_id: int = 0,
) -> StoreMessage:
    return StoreMessage(
        topic=topic,
        queue_id=queue_id,
        body=b"body",
        tag=tag,
        keys=keys or [],
        message_id=message_id,
        born_timestamp_ms=1,
        born_host=(host, 1),
    )
