"""``python -m storage_engine``: one engine for one store, until SIGTERM. ``python -m storage_engine
follow``: a replica of one that ships its store to a replicated log, and, where a node may tell it
so (``server/control.py``), the next owner.

Exit codes: 0 stopped in order, 2 configuration invalid, 3 directory in use, 4 store cannot be
opened, 5 another engine owns the shard.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from functools import partial
from typing import Any, Final

import uvloop

from storage_engine.clock import SystemClock
from storage_engine.config import StoreConfig, config_from_env
from storage_engine.disk.adopted_store import check_incoming, exchange, incoming_path
from storage_engine.disk.files import Files
from storage_engine.errors import ConfigInvalid, NotLeader, StoreError, StoreInUse
from storage_engine.filters.message_filter import set_compiled_max
from storage_engine.json_log import start_logging
from storage_engine.log.segment_cache import SegmentCache
from storage_engine.recovery.open_checks import claim_store
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.replicated_log.opening import has_snapshots, open_shard
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.follower import exchanging_stores, follow, take_over
from storage_engine.replication.tail import LogPlace
from storage_engine.replication.uploads import SplitStore, split_store
from storage_engine.server.control import Control, Role
from storage_engine.server.engine_metrics import metrics_text, replica_metrics_text
from storage_engine.server.handshake import check_network
from storage_engine.server.metrics_server import Health, MetricsServer
from storage_engine.server.server import Server
from storage_engine.store import Store
from storage_engine.wire.namespaces import StoreAdoptRequest

log = logging.getLogger("storage_engine")

EXIT_CONFIG: Final = 2
EXIT_IN_USE: Final = 3
EXIT_STORE: Final = 4
EXIT_NOT_LEADER: Final = 5
_DISK_INTERVAL_MS: Final = 1_000  # a full disk is noticed, and its way back, within it
# The flusher thread wants the interpreter back as soon as a sync is done; the default of 5 ms would
# stand in every acknowledged put.
_SWITCH_INTERVAL_S: Final = 0.000_2


async def run(config: StoreConfig) -> None:
    """Open, serve until SIGTERM or SIGINT, close; again when another store is to be served."""
    stopping = _stopping()
    while True:
        opening = asyncio.ensure_future(_open(config))
        if not await _is_done_before(stopping, opening):
            return
        adoption = _Adoption(config)
        answering = MetricsServer(lambda: b"", lambda: Health(False, "starting"))
        try:
            await _serve(config, opening.result(), stopping, None, answering, adoption)
        finally:
            await answering.stop()
        if adoption.split is None or stopping.is_set():
            return
        if not config.replicated_log:  # else the log says whether it begins anew
            adoption.exchange(adoption.split)


class _Adoption:
    """The store that is to be served instead, once somebody says so."""

    def __init__(self, config: StoreConfig) -> None:
        self._store = config.store_path
        self._is_replicated = bool(config.replicated_log)
        self.asked = asyncio.Event()
        self.split: SplitStore | None = None  # what is to be served instead

    def ask(self, request: StoreAdoptRequest) -> None:
        """Raises ``BadRequest``: that store is not there, or was given up; ``StoreCorrupt``."""
        check_incoming(self._store, request.number, is_replicated=self._is_replicated)
        self.split = split_store(incoming_path(self._store), request.number)
        self.asked.set()

    def exchange(self, split: SplitStore) -> None:
        """No store is open."""
        extra: dict[str, object] = {"action": "store_adopted", "split_number": split.number}
        try:
            exchange(Files(), self._store, number=split.number)
        except (StoreError, OSError) as exc:
            extra |= {"action": "store_not_adopted", "reason": str(exc)}
            log.error("Could not exchange the store; serving the one that is there", extra=extra)
        else:
            log.info("The shard begins with a part of another one's store", extra=extra)


async def _serve(
    config: StoreConfig,
    store: Store,
    stopping: asyncio.Event,
    role: Role | None,
    answering: MetricsServer,
    adoption: _Adoption,
) -> None:
    """Until it is time to stop or to serve another store, or what keeps the store going ends."""
    set_compiled_max(config.filter_compiled_max)
    server = Server(store)
    server.adopt = adoption.ask
    # Before the socket: whoever sees that one may ask for metrics too.
    _report_store(answering, store, server)
    if role is None:
        await _start_metrics(config, answering)
    try:
        if config.listen:
            await server.start_network()
        if config.socket:
            await server.start(config.socket)
    except ConfigInvalid:
        await store.close()
        raise
    duties = [
        asyncio.ensure_future(_every(config.tick_interval_ms, store.tick)),
        asyncio.ensure_future(_every(config.tick_interval_ms, server.resume_reading)),
        asyncio.ensure_future(_keep_durable(store)),
        asyncio.ensure_future(_every(_DISK_INTERVAL_MS, store.disk.measure)),
        asyncio.ensure_future(_checkpoint(store)),
        asyncio.ensure_future(_retain(store)),
    ]
    if store.replication is not None:
        duties.append(asyncio.ensure_future(store.replication.run()))
        if store.replication.snapshotter is not None:
            duties.append(asyncio.ensure_future(store.replication.snapshotter.run()))
        duties.append(
            asyncio.ensure_future(_every(config.tick_interval_ms, store.replication.tick))
        )
        if role is not None:
            role.serves(store.replication)
    log.info(
        "The engine accepts connections",
        extra={"action": "engine_started", "socket": config.socket, "listen": config.listen},
    )
    ends = [asyncio.ensure_future(each.wait()) for each in (stopping, adoption.asked)]
    done, _ = await asyncio.wait([*ends, *duties], return_when=asyncio.FIRST_COMPLETED)
    for duty in (*duties, *ends):
        duty.cancel()
    await asyncio.gather(*duties, *ends, return_exceptions=True)
    if role is not None:
        role.stops()
    await answering.stop()
    await store.close(adoption.split)
    await server.stop()
    log.info("The engine has stopped", extra={"action": "engine_stopped"})
    for ended in done.difference(ends):
        ended.result()  # a duty never ends by itself: raise what ended it


async def run_replica(config: StoreConfig) -> None:
    """Follow the shard's owner until SIGTERM or SIGINT; own it from when a node says so. Again when
    the shard begins anew with another store.
    """
    stopping, adoption = _stopping(), _Adoption(config)
    await _run_replica(config, stopping, adoption)
    while adoption.split is not None and not stopping.is_set():
        adoption = _Adoption(config)
        await _run_replica(config, stopping, adoption)


async def _run_replica(config: StoreConfig, stopping: asyncio.Event, adoption: _Adoption) -> None:
    role = Role(SystemClock(), stopping)
    control = Control(role, config)
    answering = MetricsServer(
        lambda: replica_metrics_text(config.shard, role.status),
        # As of an engine that refuses puts: whoever looks for the owner finds it by its 200.
        lambda: Health(False, f"a replica of the shard {config.shard}, which takes no messages"),
    )
    if config.control:
        await control.start()
    try:
        await _start_metrics(config, answering)
        opening = asyncio.ensure_future(_open_when_told(config, role, control))
        if await _is_done_before(stopping, opening):
            await _serve(config, opening.result(), stopping, role, answering, adoption)
        else:
            log.info("The replica has stopped", extra={"action": "replica_stopped"})
    finally:
        await answering.stop()
        await control.stop()


async def _open_when_told(config: StoreConfig, role: Role, control: Control) -> Store:
    try:
        place = await _follow(config, role)
    except OSError as exc:
        raise StoreError(f"{config.store_dir}: {exc.strerror}") from exc
    role.opens(place.tail.epoch)
    await control.flush()  # recovery leaves the loop no time
    return await _open(config, place)


async def _follow(config: StoreConfig, role: Role) -> LogPlace:
    files = Files()
    claim_store(files, config.store_path, config.shard)
    log.info("The replica follows its shard", extra={"action": "replica_started"})
    cache = _segment_cache(config, files)

    async def follow_it(log_: ReplicatedLog, snapshots: SnapshotBucket | None) -> LogPlace:
        return await follow(
            log_,
            snapshots,
            config.store_path,
            files,
            interval_ms=config.replication_interval_ms,
            caught_up=role.caught_up,
            wanted_epoch=role.wanted_epoch,
            derived=WarmReplica(config, files, SystemClock(), cache),
            leaves_old=bool(config.local_retention_bytes),
        )

    return await exchanging_stores(
        partial(open_shard, config, SystemClock()), config.store_path, files, follow_it
    )


def _segment_cache(config: StoreConfig, files: Files) -> SegmentCache | None:
    """Of what only the bucket has; None where there is no bucket with snapshots."""
    url = config.snapshot_url or config.replicated_log
    if not url or not has_snapshots(url):
        return None

    def open_pieces() -> SnapshotBucket:
        _, snapshots = open_shard(config, SystemClock())
        assert snapshots is not None
        return snapshots

    return SegmentCache(
        config.store_path,
        files,
        open_pieces,
        bytes_max=config.local_cache_bytes,
        segment_bytes=config.segment_bytes,
    )


def _stopping() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


async def _is_done_before(
    stopping: asyncio.Event, work: asyncio.Future[Any]
) -> bool:  # Any: its result
    """Whether the work ends first; else it is cancelled, and has ended."""
    stopped: asyncio.Future[Any] = asyncio.ensure_future(stopping.wait())  # Any: True
    done, _ = await asyncio.wait([stopped, work], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if work in done:
        return True
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return False


async def _open(config: StoreConfig, place: LogPlace | None = None) -> Store:
    """Of a shard, once the log has all that the store has. ``place``: of a log that is taken over
    already.
    """
    files = Files()
    try:
        claim_store(files, config.store_path, config.shard)
        cache = _segment_cache(config, files)
        if config.replicated_log and place is None:
            place = await exchanging_stores(
                partial(open_shard, config, SystemClock()),
                config.store_path,
                files,
                lambda log_, snapshots: take_over(
                    log_,
                    snapshots,
                    config.store_path,
                    files,
                    epoch=config.shard_epoch,
                    derived=WarmReplica(config, files, SystemClock(), cache),
                    leaves_old=bool(config.local_retention_bytes),
                ),
            )
        store = Store(config, SystemClock(), place=place, cache=cache)
        store.open(asyncio.get_running_loop())
    except OSError as exc:
        raise StoreError(f"{config.store_dir}: {exc.strerror}") from exc
    if store.replication is not None:
        await store.replication.begin()
    return store


def _report_store(answering: MetricsServer, store: Store, server: Server) -> None:
    def metrics() -> bytes:
        return metrics_text(store, store.stats(len(server.connections)))

    def health() -> Health:
        if store.refusal is not None:
            return Health(False, str(store.refusal))
        if store.replication_refusal is not None:
            return Health(True, f"degraded: {store.replication_refusal}")
        damaged = store.parts.quarantine.count
        return Health(True, f"ok, {damaged} quarantined_records" if damaged else "ok")

    answering.report(metrics, health)


async def _start_metrics(config: StoreConfig, answering: MetricsServer) -> None:
    """Answer Prometheus, where a port is given; without it the engine runs all the same."""
    if not config.metrics_port:
        return
    try:
        await answering.start(config.metrics_port, host=config.metrics_bind)
    except OSError as exc:
        log.error(
            "Could not start the metrics server; the engine runs without metrics",
            extra={"action": "metrics_not_started", "reason": str(exc)},
        )


async def _every(interval_ms: int, duty: object) -> None:
    assert callable(duty)
    while True:
        await asyncio.sleep(interval_ms / 1_000)
        duty()


async def _keep_durable(store: Store) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(store.config.async_flush_interval_ms / 1_000)
        store.flush_async()
        if store.are_offsets_durable:
            continue
        try:
            await loop.run_in_executor(None, store.sync_offsets)
        except StoreError as exc:
            log.error(
                "Could not make consumer offsets durable; trying again at the next flush",
                extra={"action": "offset_sync_failed", "reason": str(exc)},
            )


async def _checkpoint(store: Store) -> None:
    """The engine's own clock for checkpoints; Celery beat asks for more of them."""
    while True:
        await asyncio.sleep(store.config.checkpoint_interval_ms / 1_000)
        try:
            await store.checkpoint()
        except (StoreError, OSError) as exc:
            log.error(
                "A checkpoint failed; trying again at the next interval",
                extra={"action": "checkpoint_failed", "reason": str(exc)},
            )


async def _retain(store: Store) -> None:
    while True:
        await asyncio.sleep(store.config.retention_interval_ms / 1_000)
        try:
            await store.retention.run()
        except (StoreError, OSError) as exc:
            log.error(
                "Could not delete expired messages; trying again at the next interval",
                extra={"action": "retention_failed", "reason": str(exc)},
            )
        await store.release_memory()


def _raise_descriptor_limit() -> None:
    """Every client holds a descriptor; the soft limit is often only 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> int:
    """Exit code; see the module's docstring."""
    start_logging()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        config = config_from_env(os.environ)
        is_replica = sys.argv[1:] == ["follow"]
        if is_replica and not config.replicated_log:
            raise ConfigInvalid(
                "MQ_ENGINE_REPLICATED_LOG is not set: set it to the URL of the log to follow"
            )
        may_serve = not is_replica or bool(config.control)
        if may_serve and not config.socket and not config.listen:
            raise ConfigInvalid(
                "neither MQ_ENGINE_SOCKET nor MQ_ENGINE_LISTEN is set: set one to where clients "
                "connect to"
            )
        if config.listen:
            check_network(config)
    except ConfigInvalid as exc:
        print(f"storage_engine: {exc}", file=sys.stderr)
        return EXIT_CONFIG
    _raise_descriptor_limit()
    # What lives from start to stop is not looked at again by the collector.
    gc.freeze()
    try:
        uvloop.run(run_replica(config) if is_replica else run(config))
    except ConfigInvalid as exc:
        print(f"storage_engine: {exc}", file=sys.stderr)
        return EXIT_CONFIG
    except StoreInUse as exc:
        print(f"storage_engine: {exc}", file=sys.stderr)
        return EXIT_IN_USE
    except NotLeader as exc:
        print(f"storage_engine: {exc}", file=sys.stderr)
        return EXIT_NOT_LEADER
    except StoreError as exc:
        print(f"storage_engine: cannot open the store: {exc}", file=sys.stderr)
        return EXIT_STORE
    return 0


if __name__ == "__main__":
    sys.exit(main())
