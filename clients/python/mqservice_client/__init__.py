"""Client of mqservice: send, receive and manage messages.

    from mqservice_client import Client        # AsyncClient has the same methods

    with Client() as mq:
        mq.send("orders", {"order": 42}, tag="created")
        for message in mq.subscribe("orders", group="billing"):
            handle(message.json())
            message.ack()

Everything that is public is importable from here; ``mqservice_client.testing`` has a fake of the
service for tests.
"""

from __future__ import annotations

from .aio.batch import AsyncBatch, AsyncPending
from .aio.client import AsyncClient
from .aio.message import AsyncMessage
from .aio.subscription import AsyncSubscription
from .errors import (
    AlreadyDelivered,
    AlreadySettled,
    BadRequest,
    BatchFailed,
    ClientClosed,
    ClientStateError,
    Conflict,
    ConnectionLost,
    Forbidden,
    ForkedClient,
    GroupNotFound,
    IdempotencyKeyReused,
    MessageNotFound,
    MQError,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    QuotaExceeded,
    RateLimited,
    RequestRejected,
    ResponseMalformed,
    SettleFailed,
    SubscriptionConflict,
    TooLarge,
    TopicNotFound,
    Unauthenticated,
    Unavailable,
    Unreachable,
    UsageError,
    WrongEventLoop,
)
from .handlers import Reject, Retry
from .http_calls import Stored
from .messages import SubscriptionStats
from .sync.batch import Batch, Pending
from .sync.client import Client
from .sync.message import Message
from .sync.subscription import Subscription
from .values import Duration, Sql

__version__ = "0.1.0"
__all__ = [
    "AlreadyDelivered", "AlreadySettled", "AsyncBatch", "AsyncClient", "AsyncMessage",
    "AsyncPending", "AsyncSubscription", "BadRequest", "Batch", "BatchFailed", "Client",
    "ClientClosed", "ClientStateError", "Conflict", "ConnectionLost", "Duration", "Forbidden",
    "ForkedClient", "GroupNotFound", "IdempotencyKeyReused", "MQError", "Message",
    "MessageNotFound", "NotFound", "OutcomeUnknown", "Pending", "PreconditionFailed",
    "QuotaExceeded", "RateLimited", "Reject", "RequestRejected", "ResponseMalformed", "Retry",
    "SettleFailed", "Sql", "Stored", "Subscription", "SubscriptionConflict", "SubscriptionStats",
    "TooLarge", "TopicNotFound", "Unauthenticated", "Unavailable", "Unreachable", "UsageError",
    "WrongEventLoop",
]  # fmt: skip
