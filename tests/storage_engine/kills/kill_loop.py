"""Kills a real engine process again and again while clients work, and keeps their history.

    producers ── put ──▶ engine ◀── receive, settle ── consumer        killer ── SIGKILL ──▶ engine
        └──────── every outcome ──────▶ History ◀──────────┘

Each producer owns a queue and sends bodies that exist once in the world; a put whose outcome is
unknown is never sent again, so every duplicate has another cause. Some kills hit an engine that is
still starting. In the end everything is drained and read.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from storage_engine.client import (
    Durability,
    GroupConfig,
    GroupRef,
    LeaseRef,
    OutcomeUnknown,
    PullRequest,
    ReceiveRequest,
    SettleRequest,
    StoreClient,
    StoreError,
    StoreMessage,
    StoreUnavailable,
    TopicConfig,
    encode_record,
    new_message_id,
)
from tests.storage_engine.engines import Engine
from tests.storage_engine.kills.outcomes import (
    Delivery,
    History,
    Outcome,
    Queue,
    Send,
    Served,
    Settle,
    digest_of,
)

QUEUES: Final[tuple[Queue, ...]] = (("t", 0), ("t", 1), ("a", 0))
GROUP: Final = "g"
RUN_S: Final = 0.25  # at most, between ready and killed
START_S: Final = 0.25  # at most, between launched and killed
IN_RECOVERY: Final = 0.25  # share of kills that hit a starting engine
PAUSE_S: Final = 0.005
_ACKS_LOOKS_MAX: Final = 12_000  # a minute
TIMEOUT_MS: Final = 5_000
BATCH_MAX: Final = 6
LEASE_MS: Final = 10_000  # none may end while its consumer is only slow: retries are others' work
DRAIN_WAIT_MS: Final = 150
LIMITS: Final = {"MQ_ENGINE_LEASE_MS_MIN": "100"}  # short leases, for a short drain
BODY_BYTES_MAX: Final = 3_000


class HasClients(Protocol):
    """An engine, or several that take the same shard over from each other."""

    def client(self, timeout_ms: int = ...) -> StoreClient: ...


class Loop(NamedTuple):
    """What a loop did."""

    history: History
    kill_count: int
    kill_in_start_count: int


def run_kill_loop(
    kill_count: int,
    *,
    seed: int,
    deadline_s: float | None = None,
    acked_each: int = 0,
    is_patient: bool = True,
    **limits: str,
) -> Loop:
    """Kill that many times, or until ``deadline_s`` of the monotonic clock; then drain.

    ``acked_each``: so many messages were acknowledged, on average, before each next kill.
    ``is_patient``: of the drain.
    """
    draw = random.Random(seed)
    history = History()
    killed = in_start = 0
    with Engine(**(LIMITS | limits)) as engine:
        prepare(engine)
        with working(engine, history, draw):
            while killed < kill_count and (deadline_s is None or time.monotonic() < deadline_s):
                await_acks(history, acked_each * killed)
                if draw.random() < IN_RECOVERY:
                    engine.kill()
                    starting = engine.launch()
                    with contextlib.suppress(Exception):
                        starting.wait(draw.random() * START_S)
                    starting.send_signal(signal.SIGKILL)
                    starting.wait()
                    killed += 2
                    in_start += 1
                else:
                    threading.Event().wait(draw.random() * RUN_S)
                    engine.kill()
                    killed += 1
                engine.start()
        drain(engine, history, is_patient=is_patient)
    return Loop(history, killed, in_start)


def prepare(engine: Engine) -> None:
    """The topics and the group of the queues that are worked on."""
    with engine.client() as client:
        client.topic_put(TopicConfig(topic="t", queue_count=2))
        client.topic_put(TopicConfig(topic="a", queue_count=1, durability=Durability.ASYNC))
        client.group_put(GroupConfig(group=GROUP, lease_ms=LEASE_MS))


@contextlib.contextmanager
def working(
    engine: HasClients,
    history: History,
    draw: random.Random,
    queues: tuple[Queue, ...] = QUEUES,
) -> Iterator[None]:
    """Producers and a consumer run inside."""
    stopping = threading.Event()
    duties: list[Callable[[StoreClient], object]] = [
        _Producer(queue, history, random.Random(draw.random())).send for queue in queues
    ]
    duties.append(lambda client: _consume(client, history))
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=_work, args=(engine, duty, stopping, failures)) for duty in duties
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert failures == []


def await_acks(history: History, count: int) -> None:
    """Until so many messages were acknowledged, at most a minute: machines are not equally fast."""
    pause = threading.Event()
    for _ in range(_ACKS_LOOKS_MAX):
        if history.count(Outcome.ACKED) >= count:
            return
        pause.wait(PAUSE_S)


def _work(
    engine: HasClients,
    duty: Callable[[StoreClient], object],
    stopping: threading.Event,
    failures: list[BaseException],
) -> None:
    try:
        with engine.client(timeout_ms=TIMEOUT_MS) as client:
            while not stopping.is_set():
                try:
                    duty(client)
                except StoreUnavailable:
                    stopping.wait(PAUSE_S)
    except BaseException as exc:
        failures.append(exc)


class _Producer:
    """One thread that sends to one queue."""

    def __init__(self, queue: Queue, history: History, draw: random.Random) -> None:
        self._queue = queue
        self._history = history
        self._draw = draw
        self._sequence = 0

    def send(self, client: StoreClient) -> None:
        """One put of some messages. Raises ``StoreUnavailable`` when nothing was sent."""
        bodies = [self._body() for _ in range(self._draw.randint(1, BATCH_MAX))]
        begun_ns = time.monotonic_ns()
        outcomes = [(Outcome.UNKNOWN, -1)] * len(bodies)
        try:
            results = client.put([encode_record(self._message(body)) for body in bodies])
            outcomes = [
                (Outcome.ACKED, result.queue_offset)
                if result.error is None
                else (Outcome.REFUSED, -1)
                for result in results
            ]
        except StoreUnavailable:
            outcomes = []  # never left this process
            raise
        except OutcomeUnknown:
            pass
        except StoreError as exc:
            if exc.stored is False:
                outcomes = [(Outcome.REFUSED, -1)] * len(bodies)
        finally:
            ended_ns = time.monotonic_ns()
            first = self._sequence - len(bodies)
            for index, (outcome, queue_offset) in enumerate(outcomes):
                self._history.sends.append(
                    Send(
                        f"{self._queue[0]}/{self._queue[1]}", first + index, self._queue,
                        digest_of(bodies[index]), outcome, queue_offset, begun_ns, ended_ns,
                    )
                )  # fmt: skip

    def _body(self) -> bytes:
        head = f"{self._queue}|{self._sequence}|".encode()
        self._sequence += 1
        size_bytes = self._draw.choice((0, 20, 200, 1_000, BODY_BYTES_MAX))
        return head + self._draw.randbytes(16) + self._draw.randbytes(size_bytes)

    def _message(self, body: bytes) -> StoreMessage:
        return StoreMessage(
            topic=self._queue[0], queue_id=self._queue[1], body=body, message_id=new_message_id(),
            born_timestamp_ms=time.time_ns() // 1_000_000, born_host=("127.0.0.1", 1),
        )  # fmt: skip


def _consume(client: StoreClient, history: History, wait_ms: int = 20) -> int:
    """Receive once from each topic and ack what came; how many messages that was."""
    count = 0
    for topic in ("t", "a"):
        request = ReceiveRequest(
            group=GROUP, topic=topic, member_id="m", messages_max=64, bytes_max=1 << 20,
            wait_ms=wait_ms, lease_ms=LEASE_MS,
        )  # fmt: skip
        try:
            received = client.receive(request)
        except StoreUnavailable:
            raise
        except StoreError:
            continue  # an injured disk may refuse even this
        at_ns = time.monotonic_ns()
        refs = []
        for record in received.records:
            queue = record.topic, record.queue_id
            digest = digest_of(record.body)
            history.deliveries.append(Delivery(queue, record.queue_offset, digest, at_ns))
            refs.append(
                LeaseRef(
                    topic=record.topic, queue_id=record.queue_id,
                    lease_generation=received.head.lease_generation,
                    queue_offsets=[record.queue_offset],
                )
            )  # fmt: skip
        if not refs:
            continue
        count += len(refs)
        failed: set[tuple[str, int, int]] | None = None
        with contextlib.suppress(StoreError):
            reply = client.settle(SettleRequest(group=GROUP, acks=refs))
            failed = {(f.topic, f.queue_id, f.queue_offset) for f in reply.failures}
        ended_ns = time.monotonic_ns()
        for record in received.records:
            place = record.topic, record.queue_id, record.queue_offset
            is_answered = failed is not None and place not in failed
            history.settles.append(Settle(place[:2], place[2], is_answered, ended_ns))
    return count


def drain(engine: HasClients, history: History, *, is_patient: bool = False) -> None:
    """Deliver what is left, then read every queue from its beginning.

    ``is_patient``: all is settled, and still it waits for what may come when leases have ended.
    """
    with engine.client() as client:
        idle_from = time.monotonic()
        # Leases of a consumer that was cut off end after LEASE_MS.
        while time.monotonic() - idle_from < 2 * LEASE_MS / 1_000:
            # A topic that has nothing must not make the other one wait.
            if not _consume(client, history, wait_ms=0):
                if not is_patient and _has_all(client):
                    break
                if not _consume(client, history, wait_ms=DRAIN_WAIT_MS):
                    continue
            idle_from = time.monotonic()
        for topic, queue_id in QUEUES:
            queue_offset = 0
            while True:
                head, records = client.pull(
                    PullRequest(
                        topic=topic, queue_id=queue_id, queue_offset=queue_offset,
                        messages_max=1_000, bytes_max=1 << 22,
                    )
                )  # fmt: skip
                if not records:
                    break
                for record in records:
                    history.served.append(
                        Served((topic, queue_id), record.queue_offset, digest_of(record.body))
                    )
                queue_offset = head.next_offset


def _has_all(client: StoreClient) -> bool:
    """Whether the group has settled all there is, so that nothing can come any more."""
    try:
        rows = client.group_stats(GroupRef(group=GROUP)).queues
    except StoreError:
        return False
    return {(row.topic, row.queue_id) for row in rows} >= set(QUEUES) and all(
        row.consumer_offset == row.max_offset
        and not row.inflight_count
        and (not row.retry_of or row.scheduled_count == 0)
        for row in rows
    )
