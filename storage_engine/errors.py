"""Everything that can go wrong in the store, as one tree, used on both ends of the socket.

    StoreError
    ├── StoreUnavailable      1  the engine does not answer; nothing was changed
    ├── OutcomeUnknown        2  no reply to a request that was sent and may have been done
    ├── BadFrame              3  bytes on the socket that are not a frame of this protocol
    ├── BadRequest            4  a well-formed frame that asks for something impossible
    ├── TopicNotFound         5
    ├── GroupNotFound         6
    ├── QueueNotFound         7  queue_id outside the topic's queues
    ├── RecordRefused         8  a record that breaks a size or layout rule
    ├── LeaseExpired          9  the message was leased to somebody else since
    ├── OffsetOutOfRange     10
    ├── StoreBusy            11  too much waits for the disk, or too many polls are parked
    ├── DiskFull             12
    ├── SyncFailed           13  the disk refused to make an append durable
    ├── ShuttingDown         14
    ├── StoreInUse           15  another engine owns the directory
    ├── StoreCorrupt         16  files that cannot be opened as a store
    │   └── RecordUnsupported    a record of a kind that only RocketMQ has
    ├── Unauthenticated      17  the handshake's proof did not match
    ├── ConfigInvalid        18
    ├── StoreReadOnly        19  a sync failed; no puts until its segments are written anew
    ├── CursorInvalid        20  not a cursor, or one of another look-up
    ├── FilterInvalid        21  a filter's text that is no filter or exceeds a limit
    ├── CommitRefused        22  an offset that goes backwards, or of a queue that has leases
    ├── SubscriptionConflict 23  other members of the group read the topic through another filter
    ├── KeyReused            30  a key of a request that stored another message
    ├── WrongShard           31  the engine that answers owns another shard than the one meant
    ├── ClientLimit          26  one client of a broadcast group too many
    ├── BatchUnknown         27  nobody knows any more what was given out with the message
    ├── ReplicationUnavailable 32  the replicated log does not answer; other topics are served
    ├── NotLeader            33  another engine has taken over; nothing is acknowledged any more
    ├── NoReplicatedLog      34  a replicated topic needs the log that this engine was not given
    ├── NamespaceMoved       36  the namespace goes to another shard, or is there already
    └── OldMessagesUnavailable 35  only the bucket has the messages, and it cannot be read now
        └── NotLocal             they can be fetched; no client sees it

``code`` travels in reply frames and never changes its meaning. ``retriable`` says whether the same
request may succeed later. ``stored`` says what became of a put: False is a promise that nothing of
it will ever be delivered, None that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import ClassVar


class StoreError(Exception):
    """Root of all errors raised by this package."""

    code: ClassVar[int] = 0
    retriable: ClassVar[bool] = False
    stored: ClassVar[bool | None] = False
    retry_after_ms: int = 0  # when the same request may succeed, where that is known

    @property
    def message(self) -> str:
        return str(self)


class StoreUnavailable(StoreError):
    code = 1
    retriable = True


class OutcomeUnknown(StoreError):
    code = 2
    retriable = True
    stored = None


class BadFrame(StoreError):
    code = 3


class BadRequest(StoreError):
    code = 4


class TopicNotFound(StoreError):
    code = 5


class GroupNotFound(StoreError):
    code = 6


class QueueNotFound(StoreError):
    code = 7


class RecordRefused(StoreError):
    code = 8


class LeaseExpired(StoreError):
    code = 9


class OffsetOutOfRange(StoreError):
    code = 10


class StoreBusy(StoreError):
    code = 11
    retriable = True


class DiskFull(StoreError):
    code = 12
    retriable = True


class SyncFailed(StoreError):
    code = 13
    retriable = True
    stored = None


class ShuttingDown(StoreError):
    code = 14
    retriable = True


class StoreInUse(StoreError):
    code = 15


class StoreCorrupt(StoreError):
    code = 16


class RecordUnsupported(StoreCorrupt):
    """A whole record of a kind that RocketMQ has and this engine does not."""


class Unauthenticated(StoreError):
    code = 17


class ConfigInvalid(StoreError):
    code = 18


class StoreReadOnly(StoreError):
    code = 19
    retriable = True


class CursorInvalid(StoreError):
    code = 20


class FilterInvalid(StoreError):
    code = 21


class CommitRefused(StoreError):
    code = 22


class SubscriptionConflict(StoreError):
    """``retry_after_ms``: when the others are gone, if nothing more is heard of them. As long as
    they read, it stays so: whether to try again is for the client to say, not for what stands in
    between, which waits only for an engine that is away.
    """

    code = 23


class BatchUnknown(StoreError):
    code = 27


class KeyReused(StoreError):
    code = 30


class ReplicationUnavailable(StoreError):
    code = 32
    retriable = True


class NotLeader(StoreError):
    code = 33
    retriable = True
    stored = None


class NoReplicatedLog(StoreError):
    code = 34
    retriable = True  # once the engine was started with its log


class NamespaceMoved(StoreError):
    code = 36
    retriable = True  # where the namespace is now can be asked again


class OldMessagesUnavailable(StoreError):
    code = 35
    retriable = True


class NotLocal(OldMessagesUnavailable):
    """Of the records that are wanted the first ``here_count`` are here. ``fetch`` brings what the
    next ones need from the bucket; raises ``OldMessagesUnavailable``, ``DiskFull``.
    ``is_failing``: it could not, when it was last tried.
    """

    def __init__(
        self,
        message: str,
        fetch: Callable[[], Coroutine[None, None, None]],
        here_count: int,
        *,
        is_failing: bool = False,
    ) -> None:
        super().__init__(message)
        self.fetch = fetch
        self.here_count = here_count
        self.is_failing = is_failing


class WrongShard(StoreError):
    code = 31
    retriable = True  # where the shard is now can be asked again


class ClientLimit(StoreError):
    code = 26


def _by_code() -> dict[int, type[StoreError]]:
    classes = {cls.code: cls for cls in StoreError.__subclasses__()}
    assert len(classes) == len(StoreError.__subclasses__()), "two errors share a code"
    return classes


ERRORS_BY_CODE = _by_code()


def error_from_code(code: int, message: str, retry_after_ms: int = 0) -> StoreError:
    """The error a reply frame carries; an unknown code becomes a plain ``StoreError``."""
    error = ERRORS_BY_CODE.get(code, StoreError)(message)
    error.retry_after_ms = retry_after_ms
    return error
