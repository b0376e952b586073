"""Short scenarios that judge the engine beside the crash explorer: damage, two engines, clocks.

Each raises ``Violation`` (or an AssertionError) when a promise is broken. The tests run them on the
real engine, where they must find nothing, and on one with a planted bug, where they must.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from storage_engine.disk.files import Files
from storage_engine.errors import StoreError, StoreInUse
from storage_engine.log.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from storage_engine.records.record import CRC_PROPERTY_BYTES, Record
from storage_engine.wire.deliveries import Nack, SettleRequest
from tests.storage_engine.crash.explore import MEMORY
from tests.storage_engine.crash.log_reader import LogRecord, read_log
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.doubles import OpenStore, copy_store, message
from tests.storage_engine.stopping import kill

FLIPS: Final = 120
ALARM_FILE: Final = "config/quarantine.json"
_LIMITS: Final = {"segment_bytes": 8_192, "inflight_count_max": 1_000}
_MESSAGES: Final = 24


async def flipped_bits(seed: int = 1, flip_count: int = FLIPS) -> None:
    """One bit of a durable record is wrong at a time: it costs that record, says so, no more."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="rot", dir=MEMORY) as directory:
        image = Path(directory, "image")
        store = OpenStore(Path(directory, "s"), limits=_LIMITS).open()
        store.topic(queues=2)
        for index in range(_MESSAGES):
            await store.put(message(b"#%d " % index + bytes(200 + index), queue_id=index % 2))
        await store.store.checkpoint()
        records = read_log(Path(directory, "s"))
        copy_store(Path(directory, "s"), image)
        kill(store.store)
        for number in range(flip_count):
            hurt = draw.choice(records)
            at = hurt.unit[0] + draw.randrange(hurt.unit[1] - CRC_PROPERTY_BYTES)
            target = copy_store(image, Path(directory, str(number)))
            base = at - at % _LIMITS["segment_bytes"]
            path = target / "commitlog" / f"{base:020d}"
            content = bytearray(path.read_bytes())
            content[at - base] ^= 1 << draw.randrange(8)
            path.write_bytes(content)
            if number % 2:
                _forget_dispatched(target)
            _check_flipped(target, records, hurt, at - hurt.unit[0])


def _forget_dispatched(store_dir: Path) -> None:
    """Let the checkpoint say that no record is in a consume queue: the whole log is read again."""
    path = store_dir / "checkpoint"
    mark = read_checkpoint(path)
    assert mark is not None
    write_checkpoint(Files(), path, Checkpoint(flushed_offset=mark.flushed_offset))


def _check_flipped(store_dir: Path, records: list[LogRecord], hurt: LogRecord, at: int) -> None:
    try:
        store = OpenStore(store_dir, limits=_LIMITS).open()
    except StoreError as exc:
        raise Violation("refused", f"one flipped bit at {hurt.unit}: {exc}") from exc
    try:
        served = {
            (record.queue_id, record.queue_offset): record for record in _readable(store, "r")
        }
        for known in records:
            record = served.get((known.queue_id, known.queue_offset))
            if record is None:
                if known != hurt:
                    raise Violation("lost-write", f"{known.unit} beside the damaged {hurt.unit}")
            elif record.body != known.body or record.topic != known.topic:
                raise Violation("damaged-log", f"{known.unit} is served altered")
            elif known == hurt:
                raise Violation("damaged-log", f"{known.unit} is served, damaged at byte {at}")
        if not (store_dir / ALARM_FILE).exists():
            raise Violation("unreported", f"nothing says that {hurt.unit} is damaged")
    finally:
        kill(store.store)


def _readable(store: OpenStore, group: str) -> list[Record]:
    """All that a group which has never read gets."""
    found: list[Record] = []
    store.group(group)
    while leased := store.receive(_MESSAGES, group=group).records:
        found += leased
    return found


async def second_engine() -> None:
    """Another engine on the directory is refused and changes nothing."""
    with tempfile.TemporaryDirectory(prefix="two", dir=MEMORY) as directory:
        async with OpenStore(Path(directory)) as store:
            store.topic()
            await store.put(message(b"one"))
            other = OpenStore(Path(directory))
            try:
                other.open()
            except StoreInUse:
                return
            kill(other.store)
            raise Violation("two-writers", "a second engine was let in")


async def moves_at_once() -> None:
    """A message that fails is given up when what takes its place is on disk, which takes a turn of
    the loop at least: a power cut in between would leave neither.
    """
    with tempfile.TemporaryDirectory(prefix="move", dir=MEMORY) as directory:
        async with OpenStore(Path(directory)) as store:
            store.topic()
            store.group()
            await store.put(message(b"one"))
            leased = store.receive()
            failed = Nack(
                topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=0,
                delay_ms=0,
            )  # fmt: skip
            store.store.consumption.settle(SettleRequest(group="g", nacks=[failed]))
            store.store.tick()
            if store.consumer_offset():
                raise Violation("lost-write", "given up before anything else was durable")
            await store.settled()
            if not store.consumer_offset():
                raise Violation("doubled", "not given up when its next place was durable")


async def wall_clock_jumps() -> None:
    """An hour back, a day ahead: leases last, and store times never decrease along the log."""
    with tempfile.TemporaryDirectory(prefix="clock", dir=MEMORY) as directory:
        async with OpenStore(Path(directory)) as store:
            store.topic()
            store.group()
            await store.put(message(b"one"))
            leased = store.receive(lease_ms=10_000)
            for jump_ms in (-3_600_000, 86_400_000, -86_400_000 * 400, 1_000):
                store.clock.wall_ms += jump_ms
                await store.settled()
                if store.receive().records:
                    raise Violation("double-lease", f"after a jump of {jump_ms} ms")
                await store.put(message(b"jump %d" % jump_ms))
                store.ack(store.receive())
            if store.ack(leased).acked_count != 1:
                raise Violation("lease-lost", "the clock jumped and the receipt is refused")
            records = _readable(store, "r")
            times = [record.store_timestamp_ms for record in records]
            if times != sorted(times):
                raise Violation("time-goes-back", str(times))


SCENARIOS: Final[dict[str, Callable[[], Awaitable[None]]]] = {
    scenario.__name__: scenario
    for scenario in (flipped_bits, second_engine, moves_at_once, wall_clock_jumps)
}
