"""Everything that this library raises, as one tree.

MQError
├── UsageError            the arguments make no sense; nothing was sent
│   └── AlreadySettled    the message was acked, nacked or dead-lettered before
├── ClientStateError      the client cannot be used here, or no longer
│   ├── ClientClosed
│   ├── ForkedClient      the process forked after the client had connected
│   └── WrongEventLoop    it belongs to another event loop, or to one that is closed
├── Unreachable           nobody answers there; nothing was sent
├── OutcomeUnknown        the request left and nobody knows what became of it
├── RequestRejected       the service answered with a problem; a class for each kind, below
├── ConnectionLost        the socket was closed in a way that trying again does not mend
├── SettleFailed          an ack, nack, dead letter or extend had no effect
├── BatchFailed           some messages of a batch were not stored, or may not be
└── ResponseMalformed     what came is not what the API promises

"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from .protocol.problem_texts import MEANINGS


class MQError(Exception):
    """Root of all errors of this library.

    ``retryable``: the same request may succeed later. ``stored`` speaks of sent messages: False is
    the service's promise that nothing of the request will ever be delivered, None that nobody
    knows. ``retry_after_ms``: how long the service asks to wait. ``what_to_do`` is one sentence for
    whoever reads the log.
    """

    retryable: bool = False
    stored: bool | None = False
    retry_after_ms: int | None = None
    what_to_do: str = ""


class UsageError(MQError, ValueError):
    """The arguments make no sense; nothing was sent."""


class AlreadySettled(UsageError):
    """A message has one result: the second one is refused."""


class ClientStateError(MQError, RuntimeError):
    """The client cannot be used here, or no longer."""


class ClientClosed(ClientStateError):
    """``close`` was called, or the ``with`` block has ended."""

    what_to_do = "Create another client; one that was closed cannot be opened again."


class ForkedClient(ClientStateError):
    """The process forked after the client had connected, and this is the child."""

    what_to_do = (
        "Create the client after the fork, in the process that uses it; with multiprocessing, use "
        "the start method 'spawn' or connect in the child."
    )


class WrongEventLoop(ClientStateError):
    """The client belongs to another event loop, or to one that is closed."""

    what_to_do = "Create one AsyncClient for each event loop, and close it before the loop ends."


class Unreachable(MQError):
    """Nobody answers at the address; nothing was sent."""

    retryable = True
    what_to_do = "Check the address and that the service runs; sending again is safe."

    def __init__(self, base_url: str, cause: str) -> None:
        super().__init__(f"cannot reach {base_url}: {cause}")
        self.base_url = base_url
        self.cause = cause


class OutcomeUnknown(MQError):
    """The request left, and nobody knows whether it was executed.

    ``idempotency_key`` is the key of the message, if it has one: then sending it again under the
    same key within 10 minutes stores it once.
    """

    retryable = True
    stored = None
    what_to_do = (
        "Send it again if twice is better than not at all; with an idempotency_key it is stored "
        "once."
    )

    def __init__(self, what: str, cause: str, *, idempotency_key: str | None = None) -> None:
        super().__init__(f"the outcome of {what} is unknown: {cause}")
        self.cause = cause
        self.idempotency_key = idempotency_key


class ConnectionLost(MQError):
    """The service closed the socket with ``code``, and trying again does not help."""

    CODES_FINAL: ClassVar[frozenset[int]] = frozenset({1008, 4400, 4401, 4403, 4404, 4413})

    def __init__(self, code: int, reason: str, *, retry_after_ms: int | None = None) -> None:
        because = f" ({reason})" if reason else ""
        super().__init__(f"the service closed the connection with {code}{because}")
        self.code = code
        self.reason = reason
        self.retry_after_ms = retry_after_ms
        self.retryable = code not in self.CODES_FINAL
        if code in (4401, 4403):
            self.what_to_do = "Use a key that is neither revoked nor expired and may consume here."


class SettleFailed(MQError):
    """A result had no effect; ``code`` is LEASE_EXPIRED where another consumer has the message."""

    def __init__(self, message_id: str, code: str) -> None:
        super().__init__(f"the result for message {message_id} had no effect: {code}")
        self.message_id = message_id
        self.code = code
        self.what_to_do = _remedy(code)


class ResponseMalformed(MQError):
    """What came is not what the API promises: another service, or a proxy that answers itself."""

    stored = None
    what_to_do = "Check that the address is that of the service and what is between."


class BatchFailed(MQError):
    """Some messages of a batch were not stored, or may not be.

    ``failures`` has (index of the message in the batch, its error), in the order of the batch.
    """

    stored = None

    def __init__(self, failures: Sequence[tuple[int, MQError]], count: int) -> None:
        index, first = failures[0]
        super().__init__(
            f"{len(failures)} of {count} messages were not confirmed; the first is number "
            f"{index}: {first}"
        )
        self.failures = list(failures)
        self.what_to_do = first.what_to_do


class RequestRejected(MQError):
    """The service answered with a problem. Branch on ``code``, or catch one of the subclasses.

    ``errors``: (pointer, code, detail) of each fault of the request. ``status`` is 0 on a socket.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        retryable: bool = False,
        stored: bool | None = None,
        retry_after_ms: int | None = None,
        request_id: str = "",
        errors: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        place = f" (HTTP {status})" if status else ""
        trace = f" [request {request_id}]" if request_id else ""
        super().__init__(f"{code}{place}: {detail}{trace}")
        self.status = status
        self.code = code
        self.detail = detail
        self.retryable = retryable
        # A refusal by the rules stores nothing, whether or not the answer says so.
        self.stored = False if 400 <= status < 500 else stored
        self.retry_after_ms = retry_after_ms
        self.request_id = request_id
        self.errors = list(errors)
        self.what_to_do = _remedy(code)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rejected_again, (type(self), dict(vars(self))))


class BadRequest(RequestRejected):
    """The request is invalid; ``errors`` points to each fault."""


class Unauthenticated(RequestRejected):
    """No API key, or one that is revoked, expired or wrong."""


class Forbidden(RequestRejected):
    """The key is valid but may not do this."""


class QuotaExceeded(RequestRejected):
    """The tenant, namespace or group has reached its maximum."""


class NotFound(RequestRejected):
    """What the request names does not exist."""


class TopicNotFound(NotFound):
    """The namespace has no topic of this name."""


class GroupNotFound(NotFound):
    """The namespace has no consumer group of this name."""


class MessageNotFound(NotFound):
    """There is no such message, or no longer."""


class Conflict(RequestRejected):
    """The request conflicts with the current state."""


class SubscriptionConflict(Conflict):
    """Other members of the group read the topic through another filter."""


class IdempotencyKeyReused(Conflict):
    """The key was used with other content."""


class AlreadyDelivered(Conflict):
    """The scheduled message has been delivered."""


class PreconditionFailed(RequestRejected):
    """Somebody else was faster: read it again."""


class TooLarge(RequestRejected):
    """The body, the batch, or its properties are too large."""


class RateLimited(RequestRejected):
    """Too much at a time; nothing was stored. ``retry_after_ms`` says how long to wait."""


class Unavailable(RequestRejected):
    """The service cannot do it at the moment; nothing was stored or changed."""


_CLASSES: Final[dict[str, type[RequestRejected]]] = {
    "UNAUTHENTICATED": Unauthenticated,
    "FORBIDDEN": Forbidden,
    "QUOTA_EXCEEDED": QuotaExceeded,
    "TOPIC_NOT_FOUND": TopicNotFound,
    "GROUP_NOT_FOUND": GroupNotFound,
    "MESSAGE_NOT_FOUND": MessageNotFound,
    "SUBSCRIPTION_CONFLICT": SubscriptionConflict,
    "IDEMPOTENCY_KEY_REUSED": IdempotencyKeyReused,
    "ALREADY_DELIVERED": AlreadyDelivered,
    "PRECONDITION_FAILED": PreconditionFailed,
    "RATE_LIMITED": RateLimited,
    "INFLIGHT_LIMIT": RateLimited,
    "ENGINE_UNAVAILABLE": Unavailable,
    "METADATA_UNAVAILABLE": Unavailable,
    "TICKETS_UNAVAILABLE": Unavailable,
    "REPLICATION_UNAVAILABLE": Unavailable,
    "STORAGE_BUSY": Unavailable,
    "STORAGE_FULL": Unavailable,
    "DRAINING": Unavailable,
}
_CLASSES_BY_STATUS: Final[dict[int, type[RequestRejected]]] = {
    400: BadRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def rejected(
    *,
    status: int,
    code: str,
    detail: str,
    retryable: bool = False,
    stored: bool | None = None,
    retry_after_ms: int | None = None,
    request_id: str = "",
    errors: Sequence[tuple[str, str, str]] = (),
) -> RequestRejected:
    """The error of the class that belongs to the code, else to the status."""
    fallback = _CLASSES_BY_STATUS.get(status, RequestRejected)
    if status == 0 and code in MEANINGS and code.endswith("_NOT_FOUND"):
        fallback = NotFound
    return _CLASSES.get(code, fallback)(
        status=status,
        code=code,
        detail=detail,
        retryable=retryable,
        stored=stored,
        retry_after_ms=retry_after_ms,
        request_id=request_id,
        errors=errors,
    )


def _remedy(code: str) -> str:
    meaning = MEANINGS.get(code)
    return meaning.remedy if meaning is not None else ""


def _rejected_again(kind: type[RequestRejected], fields: dict[str, object]) -> RequestRejected:
    """One that was pickled, as multiprocessing does."""
    error = kind.__new__(kind, fields["detail"])
    Exception.__init__(error, f"{fields['code']}: {fields['detail']}")
    vars(error).update(fields)
    return error
