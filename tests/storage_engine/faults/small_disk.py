"""A disk that is really full: puts are refused, everything else goes on, and it heals by itself.

tmpfs of 3 MiB ──▶ engine, ballast until nothing fits ──▶ refused ──▶ ballast gone ──▶ taken again
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storage_engine.client import DiskFull, StoreClient, StoreError, TopicConfig
from storage_engine.records.record import encode_record
from tests.storage_engine.crash.violation import Violation
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import Engine, pull_all
from tests.storage_engine.faults import machine

_PUTS_MAX: Final = 1_000
_HEAL_TRIES: Final = 600
_HEAL_PAUSE_S: Final = 0.1  # with the tries: a minute


def fill_and_free(body_bytes: int = 20_000) -> int:
    """Fill the disk under an engine and give the room back; how many puts were refused.

    Raises ``Violation`` when a promise was broken.
    """
    with _small_engine() as (path, engine), engine.client() as client:
        client.topic_put(TopicConfig(topic="t", queue_count=1))
        record = [encode_record(message(bytes(body_bytes)))]
        client.put(record)
        ballast = path / "ballast"
        _fill(ballast)
        stored_count = 1 + _put_until_refused(client, record)
        if len(pull_all(client, 0)) != stored_count:
            raise Violation("lost-write", "not all that was stored can be read from a full disk")
        client.checkpoint()
        ballast.unlink()
        refused_count = 1 + _put_until_stored(client, record)
        if len(pull_all(client, 0)) != stored_count + 1:
            raise Violation("aborted-read", "what was refused is there after all")
        if client.stats().pid != engine.pid:
            raise Violation("unusable", "the engine did not live through it")
    return refused_count


@contextlib.contextmanager
def _small_engine() -> Iterator[tuple[Path, Engine]]:
    with (
        machine.tmpfs(3 * machine.MIB) as path,
        Engine(MQ_ENGINE_STORE_DIR=str(path / "store"), MQ_ENGINE_RESERVE_BYTES="262144") as engine,
    ):
        yield path, engine
        engine.kill()


def _fill(ballast: Path) -> None:
    try:
        with ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4_096))
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise


def _put_until_refused(client: StoreClient, record: list[bytes]) -> int:
    """How many were stored before."""
    for stored_count in range(_PUTS_MAX):
        try:
            client.put(record)
        except DiskFull as exc:
            if exc.stored is not False:
                raise Violation("unclear", "a refusal does not say that nothing is stored") from exc
            return stored_count
    raise Violation("unrefused", f"{_PUTS_MAX} puts fit on a full disk")


def _put_until_stored(client: StoreClient, record: list[bytes]) -> int:
    """Puts are taken again within ten seconds of there being room, without a restart.

    How many were refused before.
    """
    for refused_count in range(_HEAL_TRIES):
        try:
            client.put(record)
            return refused_count
        except StoreError:
            threading.Event().wait(_HEAL_PAUSE_S)
    raise Violation("unusable", "there is room again, and puts are refused for ten seconds")
