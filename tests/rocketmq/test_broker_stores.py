"""Stores of a real RocketMQ broker come here whole, and it opens what is exported from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.clock import SystemClock
from storage_engine.config import StoreConfig
from storage_engine.store import Store
from storage_engine.tools.transfer.exporting import export_store
from storage_engine.tools.transfer.importing import import_store
from storage_engine.tools.transfer.report import ImportReport
from storage_engine.tools.verify.verification import Verification
from tests.rocketmq.broker_program import Served, run_broker
from tests.storage_engine.doubles import ManualClock, OpenStore
from tests.storage_engine.faults.machine import need_broker
from tests.storage_engine.tools.test_store_export import filled
from tests.storage_engine.tools.test_store_import import LIMITS, hashes, ignored, messages_of

pytestmark = [
    pytest.mark.torture,
    pytest.mark.acceptance,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("rocketmq"),
]
SEGMENT_BYTES = 1 << 20  # as Broker.java has it


class Opened(OpenStore):
    """A store with files of the size that RocketMQ has."""

    def __init__(self, path: Path, clock: ManualClock | None = None) -> None:
        super().__init__(path, clock=clock)
        self.store = Store(sized(path), self.clock, self.files)


def sized(path: Path) -> StoreConfig:
    return StoreConfig(store_dir=str(path), segment_bytes=SEGMENT_BYTES, prepare_segments=0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Served]:
    """A store that a broker has filled, and what it served at its end."""
    need_broker()
    place = tmp_path_factory.mktemp("rocketmq")
    served = run_broker(place, "write", str(place / "store"))
    assert len(served.bodies("orders")) == 32
    return place / "store", served


async def imported(source: Path, target: Path) -> ImportReport:
    before = hashes(source)
    report = await import_store(
        source, sized(target), "acme", LIMITS, clock=ManualClock(), on_progress=ignored
    )
    assert hashes(source) == before
    return report


async def test_all_that_a_broker_has_written_is_imported(
    written: tuple[Path, Served], tmp_path: Path
) -> None:
    source, served = written
    report = await imported(source, tmp_path / "store")
    assert [(topic.name, topic.type) for topic in report.topics] == [
        ("fifo", "fifo"), ("orders", "mixed")
    ]  # fmt: skip
    groups = [(group.name, group.max_reconsume_times) for group in report.groups]
    assert groups == [("billing", 5), ("popping", 16)]
    assert any("popping goes back to 0 of fifo/0, from 3" in note for note in report.notes)
    assert (report.delayed.messages, report.timers.messages) == (2, 1)
    assert (report.retries, report.dead_letters) == (1, 1)
    (lost,) = [each for each in report.left_behind if each.is_loss]
    assert (lost.what, lost.count) == ("open transactions of orders", 1)
    assert report.timers.first_due_ms - report.delayed.first_due_ms > 54 * 60_000
    async with Opened(tmp_path / "store") as store:
        for topic in ("orders", "fifo"):
            found = {
                (topic, queue_id, offset): body.decode()
                for queue_id in (0, 1)
                for offset, body in messages_of(store, f"acme%{topic}", queue_id)
            }
            assert found == {key: body for key, body in served.messages.items() if key[0] == topic}
        popped = store.receive(10, topic="acme%fifo", group="acme%popping").bodies
        assert popped == [b"fifo 0", b"fifo 1", b"fifo 2", b"fifo 3"]
        rest = store.receive(100, topic="acme%orders", group="acme%billing").bodies
        retry = b"retry"
        assert sorted(rest) == sorted(
            [
                retry,
                *(
                    body.encode()
                    for (topic, queue_id, offset), body in served.messages.items()
                    if topic == "orders" and offset >= (10, 5)[queue_id]
                ),
            ]
        )


def test_verify_finds_nothing_wrong_in_what_a_broker_has_written(
    written: tuple[Path, Served],
) -> None:
    """With timers, transactions and popped messages; all keys and tags are in its index."""
    verification = Verification(written[0])
    list(verification.run())
    report = verification.report
    assert report.findings == []
    assert report.counts["index files"].item_count > 2 * 36
    assert report.counts["RocketMQ's own"].file_count > 0


async def test_a_broker_serves_what_was_exported(tmp_path: Path) -> None:
    need_broker()
    source = await filled(tmp_path / "ours")
    target = tmp_path / "theirs"
    await export_store(source, sized(target), "acme", clock=SystemClock(), on_progress=ignored)
    # Both delayed messages were due years ago: the wheel delivers them at once.
    served = run_broker(tmp_path, "read", str(target), "t=13", "%RETRY%g=1")
    numbers = [body for body in served.bodies("t") if body != "delayed"]
    assert sorted(numbers, key=int) == [str(number) for number in range(12)]
    assert served.bodies("t").count("delayed") == 1
    ours = {("t", number % 2, number // 2): str(number) for number in range(12)}
    assert ours.items() <= served.messages.items()
    assert len(served.bodies("%DLQ%g")) == 1
    assert "g" in served.groups
    assert served.offsets["t@g", 0] + served.offsets["t@g", 1] == 6


async def test_what_a_broker_adds_to_an_export_comes_back(
    written: tuple[Path, Served], tmp_path: Path
) -> None:
    """In, out, through a broker, and in again."""
    await imported(written[0], tmp_path / "ours")
    target = tmp_path / "theirs"
    await export_store(
        tmp_path / "ours", sized(target), "acme", clock=ManualClock(), on_progress=ignored
    )
    served = run_broker(tmp_path, "read", str(target), "orders=32")
    assert served.bodies("orders") == written[1].bodies("orders")
    report = await imported(target, tmp_path / "again")
    assert (report.messages, report.retries, report.dead_letters) == (36, 1, 1)
    assert (report.delayed.messages, report.timers.messages) == (0, 3)
    assert [each for each in report.left_behind if each.is_loss] == []
