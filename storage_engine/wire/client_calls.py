"""The requests that take one frame each way, as methods of both clients.

    caller ── request ──▶ [ClientCalls] ── operation, request ──▶ client.call ──▶ engine

Of ``AsyncStoreClient`` they are awaited; of ``StoreClient`` they block. What takes more than one
frame, or no struct, is the clients' own: putting, and receiving without a task.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, Self, TypeVar, overload

from storage_engine.wire.operations import Op, Operation
from storage_engine.wire.protocol import Empty

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


class AsyncCaller(abc.ABC):
    """Whose methods are awaited."""

    @abc.abstractmethod
    async def call(self, operation: Operation[RequestT, ReplyT], request: RequestT) -> ReplyT:
        """Raises ``StoreError``."""


class BlockingCaller(abc.ABC):
    """Whose methods block."""

    @abc.abstractmethod
    def call(self, operation: Operation[RequestT, ReplyT], request: RequestT) -> ReplyT:
        """Raises ``StoreError``."""


class Method(Generic[RequestT, ReplyT]):
    """An operation as a method that takes its request."""

    def __init__(self, operation: Operation[RequestT, ReplyT]) -> None:
        self._operation = operation

    @overload
    def __get__(self, client: None, of_class: type) -> Self: ...

    @overload
    def __get__(
        self, client: AsyncCaller, of_class: type
    ) -> Callable[[RequestT], Coroutine[Any, Any, ReplyT]]: ...  # Any: as of every coroutine

    @overload
    def __get__(self, client: BlockingCaller, of_class: type) -> Callable[[RequestT], ReplyT]: ...

    def __get__(self, client: AsyncCaller | BlockingCaller | None, of_class: type) -> object:
        return self if client is None else partial(client.call, self._operation)


class PlainMethod(Generic[ReplyT]):
    """An operation as a method that takes nothing."""

    def __init__(self, operation: Operation[Empty, ReplyT]) -> None:
        self._operation = operation

    @overload
    def __get__(self, client: None, of_class: type) -> Self: ...

    @overload
    def __get__(
        self, client: AsyncCaller, of_class: type
    ) -> Callable[[], Coroutine[Any, Any, ReplyT]]: ...  # Any: as of every coroutine

    @overload
    def __get__(self, client: BlockingCaller, of_class: type) -> Callable[[], ReplyT]: ...

    def __get__(self, client: AsyncCaller | BlockingCaller | None, of_class: type) -> object:
        return self if client is None else partial(client.call, self._operation, Empty())


class ClientCalls:
    """See the module's docstring; what each asks and answers is said at its structs."""

    ping = PlainMethod(Op.PING)
    pull = Method(Op.PULL)
    settle = Method(Op.SETTLE)
    look_up = Method(Op.LOOK_UP)
    key_topics = Method(Op.KEY_TOPICS)
    offset_at_time = Method(Op.OFFSET_AT_TIME)
    offset_commit = Method(Op.OFFSET_COMMIT)
    offset_reset = Method(Op.OFFSET_RESET)
    leave = Method(Op.LEAVE)
    subscribe = Method(Op.SUBSCRIBE)
    group_clients = Method(Op.GROUP_CLIENTS)
    session_keep = Method(Op.SESSION_KEEP)
    session_take = Method(Op.SESSION_TAKE)
    session_absent = Method(Op.SESSION_ABSENT)
    topic_put = Method(Op.TOPIC_PUT)
    topic_list = PlainMethod(Op.TOPIC_LIST)
    topic_stats = Method(Op.TOPIC_STATS)
    topic_delete = Method(Op.TOPIC_DELETE)
    topic_purge = Method(Op.TOPIC_PURGE)
    group_put = Method(Op.GROUP_PUT)
    group_list = PlainMethod(Op.GROUP_LIST)
    group_stats = Method(Op.GROUP_STATS)
    group_delete = Method(Op.GROUP_DELETE)
    group_members = Method(Op.GROUP_MEMBERS)
    trace = Method(Op.TRACE)
    offsets_changed = Method(Op.OFFSETS_CHANGED)
    observe = PlainMethod(Op.OBSERVE)
    checkpoint = PlainMethod(Op.CHECKPOINT)
    stats = PlainMethod(Op.STATS)
    snapshot = Method(Op.SNAPSHOT)
    snapshot_release = Method(Op.SNAPSHOT_RELEASE)
    use = Method(Op.USE)
    redrive = Method(Op.REDRIVE)
    purge = Method(Op.PURGE)
    dead_letters = Method(Op.DEAD_LETTERS)
    scheduled_list = Method(Op.SCHEDULED_LIST)
    scheduled_cancel = Method(Op.SCHEDULED_CANCEL)
    scheduled_send_now = Method(Op.SCHEDULED_SEND_NOW)
    scheduled_move = Method(Op.SCHEDULED_MOVE)
    namespace_hold = Method(Op.NAMESPACE_HOLD)
    namespace_release = Method(Op.NAMESPACE_RELEASE)
    namespace_drop = Method(Op.NAMESPACE_DROP)
    namespace_holds = PlainMethod(Op.NAMESPACE_HOLDS)
    store_adopt = Method(Op.STORE_ADOPT)
    store_discard = Method(Op.STORE_DISCARD)
