"""A log in one partition of a Kafka-protocol cluster: a record an entry, in the format of objects.

    topic PREFIX + DEPLOYMENT.SHARD:   F1 e e e F2 e e' e …     e' is a leftover of epoch 1

Kafka orders the records and keeps only one who writes apart from others by their offsets. A writer
knows which offset its next record gets. If it gets another, somebody wrote in between: the writer
reads what, and stops if it is of a newer epoch. Readers pass over entries of an epoch that is older
than one that they have seen.

The producer tries for ever, keeps the order and repeats nothing (``enable.idempotence``). Should it
ever have to leave a record out, it takes no more after it (``enable.gapless.guarantee``), and the
log must be opened anew.

An opener must not be older than the log. Each writer leaves at most IN_FLIGHT_MAX entries behind a
newer fence, so an epoch with more than that among the last records was the newest when it wrote.
Trims keep a fence of their own, which says the same of a log that has no entries.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from storage_engine.clock import Clock
from storage_engine.replicated_log.errors import (
    Closed,
    Damaged,
    Fenced,
    LogError,
    Misconfigured,
    Trimmed,
    Unavailable,
)
from storage_engine.replicated_log.object_format import (
    HEADER_BYTES,
    Kind,
    LogObject,
    decode,
    encode,
)
from storage_engine.replicated_log.port import (
    IN_FLIGHT_MAX,
    KIB,
    MIB,
    TROUBLE_AFTER_MS,
    Entry,
    Position,
    Trouble,
)

_T = TypeVar("_T")
Setting: TypeAlias = str | int | float | bool
PATIENCE_S: Final = 10.0
POLL_S: Final = 0.2
READS_MAX: Final = 64
_RECORD_BYTES_MAX: Final = 4 * MIB + HEADER_BYTES + 4 * KIB  # with what Kafka adds
_WRITING: Final[dict[str, Setting]] = {
    "acks": "all",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "message.timeout.ms": 0,  # never given up
    "message.max.bytes": _RECORD_BYTES_MAX,
    "linger.ms": 0,
    "retry.backoff.max.ms": 500,
    "reconnect.backoff.max.ms": 1_000,
}
_READING: Final[dict[str, Setting]] = {
    "group.id": "mqservice-replicated-log",  # asked for; nothing is ever committed to it
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 10,  # what is asked next waits behind it
    "fetch.message.max.bytes": 2 * _RECORD_BYTES_MAX,
    "queued.max.messages.kbytes": 32 * MIB // KIB,
    "reconnect.backoff.max.ms": 1_000,
}
# Without these Kafka would forget entries by itself, or a lost broker could take them.
_TOPIC: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": str(_RECORD_BYTES_MAX),
}
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_UNKNOWN: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)
_REPLICAS: Final = "replicas"  # our own option


@dataclass
class _Pending:
    written: LogObject
    waiting: asyncio.Future[Position]
    since_ms: int
    is_delivered: bool = False
    offset: int = OFFSET_INVALID


class KafkaLog:
    """See ``port.ReplicatedLog``."""

    entry_bytes_max = 4 * MIB
    linger_ms = 2

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        options: Mapping[str, str],
        clock: Clock,
        random: Random,
    ) -> None:
        self._topic = topic
        self._replicas = int(options.get(_REPLICAS, 3))
        self._settings: dict[str, Setting | Callable[[KafkaError], None]] = {
            **{name: value for name, value in options.items() if name != _REPLICAS},
            "bootstrap.servers": servers,
            "error_cb": self._note_error,
            "log_level": 2,  # the rest is what error_cb is told
        }
        self._clock = clock
        self._writer = random.randbytes(16)
        self._epoch = 0
        self._written = 0  # records of this writer
        self._next = 0  # the offset that the first of those that wait must get
        self._pending: deque[_Pending] = deque()
        self._acknowledging: asyncio.Task[None] | None = None
        self._end: LogError | None = Fenced("The log was not opened for writing")
        self._producer: Producer | None = None
        self._polling: threading.Thread | None = None
        self._consumers: list[Consumer] = []  # idle
        self._last_error: KafkaError | None = None
        self._is_closed = threading.Event()

    @property
    def trouble(self) -> Trouble | None:
        if not self._pending:
            return None
        since_ms = self._pending[0].since_ms
        if self._clock.monotonic_ms() - since_ms < TROUBLE_AFTER_MS:
            return None
        reason = self._last_error.str() if self._last_error else "no acknowledgement yet"
        return Trouble(since_ms, f"Kafka does not store what was sent: {reason}")

    async def open(self, epoch: int) -> Position:
        if self._end is None and epoch == self._epoch:
            return Position(epoch, self._next)
        if self._is_closed.is_set():
            raise Closed("The log is closed")
        await self._call(self._prepare_topic)
        self._start_producer()
        fence = LogObject(Kind.FENCE, epoch, self._written, self._writer)
        fenced = self._produce(fence)
        try:
            async with asyncio.timeout(PATIENCE_S):
                position = await asyncio.shield(fenced)
        except TimeoutError:
            raise self._no_answer() from None
        await self._check_epoch(epoch, position.sequence)
        self._epoch, self._end = epoch, None
        return Position(epoch, position.sequence + 1)

    def append(self, entry: bytes) -> asyncio.Future[Position]:
        assert len(entry) <= self.entry_bytes_max
        if self._end is not None:
            raise self._end
        if len(self._pending) >= IN_FLIGHT_MAX:
            raise Unavailable(f"{IN_FLIGHT_MAX} appends wait already")
        written = LogObject(Kind.ENTRY, self._epoch, self._written, self._writer, bytes(entry))
        return self._produce(written)

    async def read(self, start: Position) -> AsyncIterator[Entry]:
        epoch, sequence = start
        _, end = await self._call(self._watermarks)
        async with contextlib.aclosing(self._records(sequence, end)) as records:
            async for offset, record in records:
                epoch = max(epoch, record.epoch)
                if record.kind is Kind.ENTRY and record.epoch == epoch:
                    yield Entry(Position(epoch, offset), record.content)

    async def oldest(self) -> int:
        oldest, _ = await self._call(self._watermarks)
        return oldest

    async def trim(self, to: Position) -> None:
        if self._end is not None:
            raise self._end
        if to.sequence > self._next:
            raise ValueError(f"{to} is beyond the end of the log, {self._next}")
        await self._produce(LogObject(Kind.FENCE, self._epoch, self._written, self._writer))

        def delete() -> None:
            oldest, _ = self._watermarks()
            if oldest < to.sequence:
                partition = TopicPartition(self._topic, 0, to.sequence)
                admin = self._admin()  # its answers come only while it exists
                futures = admin.delete_records([partition], request_timeout=PATIENCE_S)
                _results(futures.values())

        await self._call(delete)

    async def close(self) -> None:
        self._stop(Closed("The log was closed"))
        self._is_closed.set()
        if self._acknowledging is not None:
            self._acknowledging.cancel()
        if self._polling is not None:
            await asyncio.to_thread(self._polling.join)
        while self._consumers:
            await asyncio.to_thread(self._consumers.pop().close)

    # --- writing -----------------------------------------------------------------------------

    def _start_producer(self) -> None:
        if self._producer is not None:
            return
        self._producer = producer = Producer({**self._settings, **_WRITING})

        def poll() -> None:
            while not self._is_closed.is_set():
                producer.poll(POLL_S)
            producer.purge()
            producer.flush(0)

        self._polling = threading.Thread(target=poll, name="replicated-log", daemon=True)
        self._polling.start()

    def _produce(self, written: LogObject) -> asyncio.Future[Position]:
        assert self._producer is not None
        loop = asyncio.get_running_loop()
        pending = _Pending(written, loop.create_future(), self._clock.monotonic_ms())
        self._pending.append(pending)
        self._written += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            """On the polling thread."""
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._delivered, pending, error, message.offset())

        self._producer.produce(
            self._topic, value=encode(written), partition=0, on_delivery=delivered
        )
        return pending.waiting

    def _delivered(self, pending: _Pending, error: KafkaError | None, offset: int | None) -> None:
        if error is not None:
            self._stop(_log_error(error))
            return
        self._last_error = None
        pending.is_delivered = True
        pending.offset = OFFSET_INVALID if offset is None else offset
        if self._acknowledging is None or self._acknowledging.done():
            self._acknowledging = asyncio.get_running_loop().create_task(self._acknowledge())

    async def _acknowledge(self) -> None:
        """In order, and only if nobody with a newer epoch wrote in between."""
        while self._pending and self._pending[0].is_delivered:
            pending = self._pending[0]
            offset = pending.offset
            if offset != self._next:
                try:
                    offset = await self._find(pending.written)
                except Unavailable:
                    continue  # it has been stored: what came before it, we have to know
                except Trimmed:  # beyond our last entry, which only a newer owner can have done
                    self._stop(Fenced(f"Epoch {self._epoch} is over: a newer one has trimmed"))
                    return
                except LogError as exc:
                    self._stop(exc)
                    return
            if self._pending and self._pending[0] is pending:
                self._pending.popleft()
                self._next = offset + 1
                if not pending.waiting.done():
                    pending.waiting.set_result(Position(pending.written.epoch, offset))

    async def _find(self, written: LogObject) -> int:
        """The offset of a record of ours that has been stored. Raises Fenced if a newer epoch came
        before it. The first record, a fence, is wherever it is.
        """
        if self._next == 0 and self._pending[0].offset != OFFSET_INVALID:
            return self._pending[0].offset
        _, end = await self._call(self._watermarks)
        async with contextlib.aclosing(self._records(self._next, end)) as records:
            async for offset, record in records:
                if record == written:
                    return offset
                if record.epoch > written.epoch:
                    raise _fenced(written.epoch, record.epoch)
        raise Damaged(f"{self._topic} has lost a record that it had stored after {self._next}")

    def _stop(self, reason: LogError) -> None:
        if self._end is None or isinstance(reason, Closed):
            self._end = reason
        while self._pending:
            waiting = self._pending.popleft().waiting
            if not waiting.done():
                waiting.set_exception(reason)

    async def _check_epoch(self, epoch: int, fence: int) -> None:
        """Raises Fenced if the log has seen this epoch, of another writer, or a newer one."""
        oldest, _ = await self._call(self._watermarks)
        start = fence
        entries: Counter[int] = Counter()
        while start > oldest and max(entries.values(), default=0) <= IN_FLIGHT_MAX:
            end, start = start, max(oldest, start - READS_MAX)
            async with contextlib.aclosing(self._records(start, end)) as records:
                async for _, record in records:
                    if record.epoch >= epoch and record.writer != self._writer:
                        raise _fenced(epoch, record.epoch)
                    entries[record.epoch] += record.kind is Kind.ENTRY

    # --- reading -----------------------------------------------------------------------------

    async def _records(self, start: int, end: int) -> AsyncGenerator[tuple[int, LogObject], None]:
        """All records of a range, with their offsets."""
        if start >= end:
            return
        consumer = await self._call(lambda: self._consumer_at(start))
        try:
            while start < end:
                for message in await self._call(lambda: self._fetch(consumer)):
                    offset, value = message.offset(), message.value()
                    assert offset is not None
                    if offset >= end:
                        return
                    yield offset, decode(value or b"", f"{self._topic} at {offset}")
                    start = offset + 1
        finally:
            consumer.unassign()
            self._consumers.append(consumer)

    def _consumer_at(self, offset: int) -> Consumer:
        oldest, _ = self._watermarks()
        if offset < oldest:
            raise Trimmed(f"Entries before {oldest} are gone; {offset} was asked for")
        consumer = self._idle_consumer()
        consumer.assign([TopicPartition(self._topic, 0, offset)])
        return consumer

    def _fetch(self, consumer: Consumer) -> list[Message]:
        """At least one record, or KafkaException after some time without."""
        first = consumer.poll(PATIENCE_S)
        if first is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        messages = [first, *consumer.consume(READS_MAX - 1, 0)]
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise Trimmed("Entries are gone that were to be read next")
            if error is not None:
                raise KafkaException(error)
        return messages

    def _idle_consumer(self) -> Consumer:
        return (
            self._consumers.pop() if self._consumers else Consumer({**self._settings, **_READING})
        )

    def _watermarks(self) -> tuple[int, int]:
        """The oldest offset that is kept, and the next one."""
        consumer = self._idle_consumer()
        try:
            partition = TopicPartition(self._topic, 0)
            found = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S, cached=False)
        except KafkaException as exc:
            if exc.args[0].code() in _UNKNOWN and self._producer is None:
                return 0, 0  # nobody has opened the log yet
            raise
        finally:
            self._consumers.append(consumer)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found

    # --- the topic ---------------------------------------------------------------------------

    def _prepare_topic(self) -> None:
        """Make it, or see that it is as we would have made it."""
        admin = self._admin()
        config = {**_TOPIC, "min.insync.replicas": str(self._replicas // 2 + 1)}
        topic = NewTopic(self._topic, 1, self._replicas, config=config)
        try:
            _results(admin.create_topics([topic], request_timeout=PATIENCE_S).values())
            return
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        partitions = (
            admin.list_topics(self._topic, timeout=PATIENCE_S).topics[self._topic].partitions
        )
        if len(partitions) > 1:
            raise Misconfigured(
                f"Topic {self._topic} has {len(partitions)} partitions; a log has one"
            )
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        (found,) = _results(admin.describe_configs([resource], request_timeout=PATIENCE_S).values())
        wrong = [name for name, value in _TOPIC.items() if found[name].value != value]
        if wrong:
            raise Misconfigured(
                f"Topic {self._topic} would lose entries: set "
                + ", ".join(f"{name}={_TOPIC[name]}" for name in wrong)
            )

    def _admin(self) -> AdminClient:
        settings: Any = self._settings  # Any: its stub knows no callbacks
        return AdminClient(settings)

    # --- errors ------------------------------------------------------------------------------

    async def _call(self, work: Callable[[], _T]) -> _T:
        give_up_ms = self._clock.monotonic_ms() + PATIENCE_S * 1_000
        while True:
            try:
                return await asyncio.to_thread(work)
            except KafkaException as exc:
                if self._last_error is not None and self._last_error.code() in _REFUSALS:
                    raise self._no_answer() from exc
                is_new = exc.args[0].code() in _UNKNOWN  # not known to all brokers yet
                if not is_new or self._clock.monotonic_ms() >= give_up_ms:
                    raise _log_error(exc.args[0]) from exc
            await asyncio.sleep(POLL_S / 2)

    def _no_answer(self) -> LogError:
        if self._last_error is None:
            return Unavailable("Kafka does not answer")
        return _log_error(self._last_error)

    def _note_error(self, error: KafkaError) -> None:
        """On threads of librdkafka. A refusal says more than that all brokers are down after it."""
        if self._last_error is None or self._last_error.code() not in _REFUSALS:
            self._last_error = error


def _results(futures: Iterable[Future[_T]]) -> list[_T]:
    return [future.result() for future in futures]


def _log_error(error: KafkaError) -> LogError:
    if error.code() in _REFUSALS:
        return Misconfigured(f"Kafka refuses: {error.str()}")
    if error.fatal():
        return Damaged(f"Kafka could not keep the order, open the log anew: {error.str()}")
    return Unavailable(f"Kafka does not answer: {error.str()}")


def _fenced(epoch: int, newer: int) -> Fenced:
    return Fenced(f"Epoch {epoch} is over: the log is at {newer}, of another writer")
