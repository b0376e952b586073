"""What the client library raises, in the words of the command line.

MQError ─▶ [client_error, explain] ─▶ what a person reads
"""

from __future__ import annotations

from mqservice_client import MQError, OutcomeUnknown, RequestRejected, Unreachable, UsageError
from mqservice_client.http_calls import rejection_of

from mqservice.cli import errors
from mqservice.cli.errors import ClientError


def client_error(exc: MQError) -> ClientError:
    """The same in the words of the command line, with its hints and exit codes."""
    if isinstance(exc, RequestRejected):
        return errors.RequestRejected(
            status=exc.status,
            code=exc.code,
            detail=exc.detail,
            retriable=exc.retryable,
            stored=exc.stored,
            retry_after_ms=exc.retry_after_ms,
            request_id=exc.request_id,
        )
    if isinstance(exc, Unreachable):
        return errors.Unreachable(exc.base_url, exc.cause)
    return errors.UsageError(str(exc)) if isinstance(exc, UsageError) else ClientError(str(exc))


def rejection_from(status: int, content: bytes) -> ClientError:
    """The error of a response that is no success."""
    return client_error(rejection_of(status, content))


def explain(exc: MQError) -> tuple[str, str]:
    """(code, detail) of what became of a message that was not confirmed."""
    answer = exc if isinstance(exc, RequestRejected) else exc.__cause__
    if isinstance(answer, RequestRejected):
        return answer.code, answer.detail
    if isinstance(exc, OutcomeUnknown):
        if exc.__cause__ is None:  # the service said so of one message of a batch
            return "OUTCOME_UNKNOWN", exc.cause
        return "NO_ANSWER", f"no response ({exc.cause}); the outcome is unknown"
    if isinstance(exc, UsageError):
        return "BAD_REQUEST", str(exc)
    return ("UNREACHABLE" if isinstance(exc, Unreachable) else "NO_ANSWER"), str(client_error(exc))
