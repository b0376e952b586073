"""What WebSocket subscriptions cost that wait for messages: memory of each, CPU of all.

    SUBSCRIPTIONS sockets ─▶ hello, sub ─▶ nothing comes ─▶ memory and CPU of web and engine

The client answers pings and does nothing else. ``python -m bench --only idle``.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import msgspec

from bench.measure import MeasureFailed, Meter, Plan, Row, Run, cpu_seconds, row_of
from bench.processes import Service, service_running
from bench.ws_client import TEXT, LeanSocket
from mqservice.protocol import client_codec, frames
from mqservice.protocol.frames import Subprotocol

WORKLOAD: Final = "idle"
SUBSCRIPTIONS: Final = 1_000
OPENED_AT_ONCE: Final = 50
SID: Final = 1
MEMORY_KIB_TARGET: Final = 60.0  # of one subscription, in the web processes and the engine together
CPU_PERCENT_TARGET: Final = 2.0  # of one core, for all of them
# A ping is due after 25 s of silence and a parked fetch is asked for again after 30 s: a window
# that is shorter than both would miss what they cost.
WINDOW_MS_MIN: Final = 35_000
SETTLE_S: Final = 3.0  # what opening them left to be collected or freed
_ANONYMOUS: Final = re.compile(r"^Anonymous:\s+(\d+) kB$", re.MULTILINE)


async def measure(plan: Plan, base: Path) -> list[Row]:
    memory, cpu = [], []
    for _ in range(plan.repeats):
        async with service_running(base) as service:
            of_each, of_all = await _idle(plan, service)
        memory.append(of_each)
        cpu.append(of_all)
    setting = f"{SUBSCRIPTIONS:,} sockets with a subscription each, JSON, nothing to deliver"
    return [
        row_of(
            memory,
            workload=WORKLOAD,
            name="memory of an idle subscription, web and engine",
            unit="KiB",
            setting=setting,
            target=MEMORY_KIB_TARGET,
            is_less_better=True,
        ),
        row_of(
            cpu,
            workload=WORKLOAD,
            name=f"CPU of {SUBSCRIPTIONS:,} idle subscriptions, web and engine",
            unit="% of a core",
            setting=f"{setting}; what the same processes use without them is taken off",
            target=CPU_PERCENT_TARGET,
            is_less_better=True,
        ),
    ]


async def _idle(plan: Plan, service: Service) -> tuple[Run, Run]:
    pids = {
        name: pid
        for name, pid in service.measured_pids.items()
        if name.startswith("web") or name == "engine"
    }
    if not pids:
        raise MeasureFailed("there is no web process and no engine")
    window_s = max(plan.duration_ms, WINDOW_MS_MIN) / 1000
    # The first socket brings in what all of them share.
    sockets = [await _opened(service)]
    answering = [asyncio.ensure_future(_answer_pings(sockets[0]))]
    await asyncio.sleep(SETTLE_S)
    without = await _percent(pids, window_s)
    before = {name: _anonymous_kib(pid) for name, pid in pids.items()}
    try:
        while len(sockets) <= SUBSCRIPTIONS:
            count = min(OPENED_AT_ONCE, SUBSCRIPTIONS + 1 - len(sockets))
            opened = await asyncio.gather(*(_opened(service) for _ in range(count)))
            sockets += opened
            answering += [asyncio.ensure_future(_answer_pings(each)) for each in opened]
        await asyncio.sleep(SETTLE_S)
        meter = Meter(pids)
        used = await _percent(pids, window_s)
        _, cores = meter.stop()
        ended = [each for each in answering if each.done()]
        if ended:
            ended[0].result()
        grown = {name: _anonymous_kib(pid) - before[name] for name, pid in pids.items()}
    finally:
        for each in answering:
            each.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        for socket in sockets:
            socket.close()
    each_kib = {f"{name}_kib": round(kib / SUBSCRIPTIONS, 1) for name, kib in grown.items()}
    memory = Run(rate=sum(grown.values()) / SUBSCRIPTIONS, extra=each_kib)
    return memory, Run(
        rate=sum(used.values()) - sum(without.values()),
        extra={f"{name}_percent": round(used[name] - without[name], 2) for name in pids},
        cpu=cores,
    )


async def _percent(pids: dict[str, int], seconds: float) -> dict[str, float]:
    """CPU of each process during the next ``seconds``, in percent of a core."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    await asyncio.sleep(seconds)
    return {name: (cpu_seconds(pid) - before[name]) / seconds * 100 for name, pid in pids.items()}


async def _opened(service: Service) -> LeanSocket:
    socket = await LeanSocket.connect(
        service.ws_url, subprotocol=Subprotocol.JSON, key=service.api_key
    )
    socket.send(_encoded(frames.Hello(id=1, client="bench")), TEXT)
    subscribe = frames.Subscribe(id=2, sid=SID, topic=service.topic, group=service.group)
    socket.send(_encoded(subscribe), TEXT)
    while True:
        for push in client_codec.decode(await socket.receive(), Subprotocol.JSON):
            if isinstance(push, frames.Ok):
                return socket
            if isinstance(push, frames.Err):
                raise MeasureFailed(f"the service refused: {push.code} {push.msg}")


async def _answer_pings(socket: LeanSocket) -> None:
    while True:
        for push in client_codec.decode(await socket.receive(), Subprotocol.JSON):
            if isinstance(push, frames.Ping):
                socket.send(_encoded(frames.Pong()), TEXT)


def _encoded(frame: msgspec.Struct) -> bytes:
    return client_codec.encode(frame, Subprotocol.JSON)


def _anonymous_kib(pid: int) -> int:
    """Memory of a process that no file stands behind."""
    found = _ANONYMOUS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    if found is None:
        raise MeasureFailed(f"process {pid} does not say how much memory it has")
    return int(found.group(1))
