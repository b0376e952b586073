"""Errors as SQS has them: the code of each protocol, the status and whose fault it is.

    Problem, Fault, StoreError, SqsError ──▶ [sqs_error_of] ──▶ SqsError ──▶ protocol ──▶ response

The JSON protocol names an error by its shape, the query protocol by an older code; SDKs of both
eras compare either, so both are given.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from mqservice.delivery.decoding import Fault, problem_of
from mqservice.errors import problem_from_store
from mqservice.lib.problem import Problem
from mqservice.store import StoreError

log = logging.getLogger(__name__)

_OLD: Final = "AWS.SimpleQueueService."
SERVER_STATUS_MIN: Final = 500
NO_SUCH_QUEUE: Final = "The specified queue does not exist."
VALUE_CHARS_MAX: Final = 1_000  # of what a client gave, in a message


class ErrorKind(NamedTuple):
    """``code``: of the query protocol. ``shape``: of JSON, where it is not the error's name."""

    code: str
    status: int = 400
    shape: str = ""


KINDS: Final = {
    # Errors of the service's model.
    "BatchEntryIdsNotDistinct": ErrorKind(_OLD + "BatchEntryIdsNotDistinct"),
    "BatchRequestTooLong": ErrorKind(_OLD + "BatchRequestTooLong"),
    "EmptyBatchRequest": ErrorKind(_OLD + "EmptyBatchRequest"),
    "InvalidAddress": ErrorKind("InvalidAddress", 404),
    "InvalidAttributeName": ErrorKind("InvalidAttributeName"),
    "InvalidAttributeValue": ErrorKind("InvalidAttributeValue"),
    "InvalidBatchEntryId": ErrorKind(_OLD + "InvalidBatchEntryId"),
    "InvalidIdFormat": ErrorKind("InvalidIdFormat"),
    "InvalidMessageContents": ErrorKind("InvalidMessageContents"),
    "InvalidSecurity": ErrorKind("InvalidSecurity", 403),
    "MessageNotInflight": ErrorKind(_OLD + "MessageNotInflight"),
    "OverLimit": ErrorKind("OverLimit", 403),
    "PurgeQueueInProgress": ErrorKind(_OLD + "PurgeQueueInProgress", 403),
    "QueueDeletedRecently": ErrorKind(_OLD + "QueueDeletedRecently"),
    "QueueDoesNotExist": ErrorKind(_OLD + "NonExistentQueue"),
    "QueueNameExists": ErrorKind("QueueAlreadyExists"),
    "ReceiptHandleIsInvalid": ErrorKind("ReceiptHandleIsInvalid", 404),
    "RequestThrottled": ErrorKind("RequestThrottled", 403),
    "ResourceNotFoundException": ErrorKind("ResourceNotFoundException", 404),
    "TooManyEntriesInBatchRequest": ErrorKind(_OLD + "TooManyEntriesInBatchRequest"),
    "UnsupportedOperation": ErrorKind(_OLD + "UnsupportedOperation"),
    # Errors that every service of AWS has.
    "AccessDenied": ErrorKind("AccessDenied", 403, "AccessDeniedException"),
    "IncompleteSignatureException": ErrorKind("IncompleteSignature"),
    "InternalFailure": ErrorKind("InternalFailure", 500),
    "InvalidAction": ErrorKind("InvalidAction"),
    "InvalidParameterCombination": ErrorKind("InvalidParameterCombination"),
    "InvalidParameterValue": ErrorKind(
        "InvalidParameterValue", shape="InvalidParameterValueException"
    ),
    "InvalidQueryParameter": ErrorKind("InvalidQueryParameter"),
    "InvalidSignatureException": ErrorKind("SignatureDoesNotMatch", 403),
    "MalformedQueryString": ErrorKind("MalformedQueryString", 404),
    "MissingAction": ErrorKind("MissingAction"),
    "MissingAuthenticationTokenException": ErrorKind("MissingAuthenticationToken", 403),
    "MissingParameter": ErrorKind("MissingParameter", shape="MissingRequiredParameterException"),
    "RequestExpired": ErrorKind("RequestExpired"),
    "SerializationException": ErrorKind("SerializationException"),
    "ServiceUnavailable": ErrorKind("ServiceUnavailable", 503),
    "UnknownOperationException": ErrorKind("UnknownOperationException", 404),
    "UnrecognizedClientException": ErrorKind("InvalidClientTokenId", 403),
}


class SqsError(Exception):
    """``name``: of ``KINDS``."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.code, self.status, shape = KINDS[name]
        self.shape = shape or name

    @property
    def is_sender_fault(self) -> bool:
        return self.status < SERVER_STATUS_MIN


def no_such_queue() -> SqsError:
    """One answer for queues that are absent and those of others."""
    return SqsError("QueueDoesNotExist", NO_SUCH_QUEUE)


def missing_parameter(name: str) -> SqsError:
    return SqsError("MissingParameter", f"The request must contain the parameter {name}.")


def invalid_value(name: str, value: object, reason: str) -> SqsError:
    """``reason``: a sentence."""
    text = str(value)[:VALUE_CHARS_MAX]
    detail = f"Value {text} for parameter {name} is invalid. Reason: {reason}"
    return SqsError("InvalidParameterValue", detail)


# What codes of ours mean; all others are InvalidParameterValue, or InternalFailure above 500.
_OF_PROBLEMS: Final = {
    "BODY_TOO_LARGE": "InvalidParameterValue",
    "CONFLICT": "UnsupportedOperation",
    "ENGINE_UNAVAILABLE": "ServiceUnavailable",
    "FORBIDDEN": "AccessDenied",
    "GROUP_NOT_FOUND": "QueueDoesNotExist",
    "INFLIGHT_LIMIT": "OverLimit",
    "INTERNAL": "InternalFailure",
    "METADATA_UNAVAILABLE": "ServiceUnavailable",
    "METHOD_NOT_ALLOWED": "InvalidAction",
    "NAMESPACE_READ_ONLY": "AccessDenied",
    "OUTCOME_UNKNOWN": "ServiceUnavailable",
    "QUOTA_EXCEEDED": "OverLimit",
    "RATE_LIMITED": "RequestThrottled",
    "RECEIPT_INVALID": "ReceiptHandleIsInvalid",
    "REPLICATION_UNAVAILABLE": "ServiceUnavailable",
    "STORAGE_BUSY": "ServiceUnavailable",
    "STORAGE_FULL": "ServiceUnavailable",
    "SUBSCRIPTION_CONFLICT": "UnsupportedOperation",
    "TOPIC_NOT_FOUND": "QueueDoesNotExist",
    "UNAUTHENTICATED": "UnrecognizedClientException",
}


def sqs_error_of(error: BaseException, request_id: str) -> SqsError:
    """What a client of SQS reads of any failure; what is nobody's fault but ours is logged."""
    if isinstance(error, SqsError):
        return error
    if isinstance(error, Fault):
        error = problem_of(error)
    elif isinstance(error, StoreError):
        error = problem_from_store(error)
    if isinstance(error, Problem):
        name = _OF_PROBLEMS.get(error.code)
        if name is None:
            is_ours = error.status >= SERVER_STATUS_MIN
            name = "InternalFailure" if is_ours else "InvalidParameterValue"
        if name == "QueueDoesNotExist":
            return no_such_queue()
        return SqsError(name, error.detail)
    log.error(
        "A request to the SQS face failed with an unexpected error",
        exc_info=error,
        extra={"action": "request_failed", "request_id": request_id},
    )
    return SqsError("InternalFailure", "The request failed; its request id is in the log.")
