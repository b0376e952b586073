"""A stop in order, while clients go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.wire.protocol import CheckpointReply
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.retention.deleting import begun, start_nack
from tests.storage_engine.tools.test_verify import check, found


async def test_what_clients_do_while_the_engine_stops_leaves_a_stop_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last sync nothing is appended, else the next start would take it for a kill."""
    store = await begun(tmp_path / "s", b"a", b"b")
    leased = store.receive(1)
    write_last = store.store.checkpoint

    async def give_back_meanwhile() -> CheckpointReply:
        start_nack(store, leased, delay_ms=0)
        store.store.tick()
        return await write_last()

    monkeypatch.setattr(store.store, "checkpoint", give_back_meanwhile)
    await store.close()
    assert not (store.store_dir / "abort").exists()
    assert found(check(store.store_dir)) == []
    async with OpenStore(store.store_dir) as again:
        assert again.receive().bodies == [b"a", b"b"]
