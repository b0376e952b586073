"""Power cuts of a real file system under a real engine: what was not synced is really gone.

    clients ── put, receive, settle ──▶ engine ──▶ ext4 in an image ◀── cut, mount again
        └────────── every outcome ──────────▶ History ──▶ anomalies

A cut may take the last settles, which shows as messages that come again, and from an async topic
what was acknowledged last. Both are promised (D9, D3), so neither is an anomaly here.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Final, NamedTuple

from tests.storage_engine.engines import Engine
from tests.storage_engine.faults import machine
from tests.storage_engine.kills.history_checker import Anomaly, anomalies
from tests.storage_engine.kills.kill_loop import LIMITS, await_acks, drain, prepare, working
from tests.storage_engine.kills.outcomes import History, Outcome, Queue, Send

SYNC_QUEUES: Final[tuple[Queue, ...]] = (("t", 0), ("t", 1))
ASYNC_QUEUE: Final[Queue] = ("a", 0)
WINDOW_MS: Final = 200  # what a cut may take of an async topic, as the engine's limits say
SLACK_MS: Final = 300  # for the sync itself and for a machine that does other things as well
_RUN_S_MIN: Final = 0.1
_RUN_S_MAX: Final = 0.45
_ASYNC_RUN_S: Final = 1.0
_ACKED_EACH: Final = 101


class Cuts(NamedTuple):
    """What some cuts did. ``window_lost_count``: acknowledged async messages they took."""

    history: History
    anomalies: list[Anomaly]
    cut_count: int
    window_lost_count: int


def run_cuts(cut_count: int, *, seed: int) -> Cuts:
    """Cut the power that many times while sync topics are worked on; then drain and judge."""
    history = History()
    draw = random.Random(seed)
    cuts: list[tuple[int, int]] = []
    with machine.ext4() as disk, _engine_on(disk) as engine:
        prepare(engine)
        for _ in range(cut_count):
            acked_count = history.count(Outcome.ACKED)
            with working(engine, history, draw, SYNC_QUEUES):
                await_acks(history, acked_count + _ACKED_EACH)
                threading.Event().wait(draw.uniform(_RUN_S_MIN, _RUN_S_MAX))
                cuts.append((_cut(disk, engine), time.monotonic_ns()))
            _mount_again(disk, engine)
        drain(engine, history)
        engine.kill()
    history.sends = [unknown_after_cut(send, cuts) for send in history.sends]
    found = [anomaly for anomaly in anomalies(history) if anomaly[0] != "duplicate-after-ack"]
    return Cuts(history, found, cut_count, 0)


def unknown_after_cut(send: Send, cuts: list[tuple[int, int]]) -> Send:
    """A machine without power answers nobody: an ack that came during a cut is no promise.

    Here the processes go on for a moment while the kernel takes the disk away, and a sync that
    overlaps with that may still report success. ``cuts``: when each began and was over, ns.
    """
    is_during = any(begun <= send.ended_ns <= over for begun, over in cuts)
    if is_during and send.outcome is Outcome.ACKED:
        return send._replace(outcome=Outcome.UNKNOWN, queue_offset=-1)
    return send


def run_async_cut(*, seed: int) -> Cuts:
    """One cut while an async topic is worked on: its loss is a suffix, and a young one."""
    history = History()
    draw = random.Random(seed)
    with machine.ext4() as disk, _engine_on(disk) as engine:
        prepare(engine)
        with working(engine, history, draw, (ASYNC_QUEUE,)):
            await_acks(history, _ACKED_EACH)
            threading.Event().wait(_ASYNC_RUN_S + draw.random() * WINDOW_MS / 1_000)
            cut_ns = _cut(disk, engine)
        _mount_again(disk, engine)
        drain(engine, history)
        engine.kill()
    return judge_async(history, cut_ns=cut_ns)


def judge_async(history: History, *, cut_ns: int) -> Cuts:
    """The anomalies of a history that ended with one cut at that time and a drain."""
    kept_count = sum(served.queue == ASYNC_QUEUE for served in history.served)
    lost = {
        send
        for send in history.sends
        if send.outcome is Outcome.ACKED and send.queue_offset >= kept_count
    }
    too_old_ns = cut_ns - (WINDOW_MS + SLACK_MS) * 1_000_000
    found: list[Anomaly] = [
        ("lost-outside-window", f"{send.queue} at {send.queue_offset}")
        for send in sorted(lost, key=lambda send: send.queue_offset)
        if send.ended_ns < too_old_ns
    ]
    remaining = History(
        sends=[send for send in history.sends if send not in lost],
        # What was seen and then lost is the price of an async topic.
        deliveries=[seen for seen in history.deliveries if seen.queue_offset < kept_count],
        settles=history.settles,
        served=history.served,
    )
    found += [anomaly for anomaly in anomalies(remaining) if anomaly[0] != "duplicate-after-ack"]
    return Cuts(history, found, 1, len(lost))


def _engine_on(disk: machine.Ext4) -> Engine:
    return Engine(MQ_ENGINE_STORE_DIR=str(disk.path / "store"), **LIMITS)


def _cut(disk: machine.Ext4, engine: Engine) -> int:
    """The time just before it, in ns of the monotonic clock."""
    cut_ns = time.monotonic_ns()
    disk.cut()
    engine.kill()
    return cut_ns


def _mount_again(disk: machine.Ext4, engine: Engine) -> None:
    disk.umount()
    disk.mount()
    engine.start()
