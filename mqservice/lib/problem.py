"""Errors as RFC 9457 problem documents: one exception, one table of codes, one encoder.

    view, data plane, middleware ── raise Problem ──▶ [problem] ──▶ application/problem+json

``code`` is what programs branch on: it never changes its meaning, and its status never changes.
``stored`` is only sent where a message was offered: False promises that it will never be delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

CONTENT_TYPE: Final = "application/problem+json"

# code -> (HTTP status, title)
CODES: Final[dict[str, tuple[int, str]]] = {
    "BAD_REQUEST": (400, "Bad request"),
    "ILLEGAL_NAMESPACE": (400, "Illegal namespace name"),
    "ILLEGAL_TOPIC": (400, "Illegal topic name"),
    "ILLEGAL_GROUP": (400, "Illegal group name"),
    "ILLEGAL_ALERT": (400, "Illegal alert name"),
    "ILLEGAL_SCHEDULE": (400, "Illegal schedule name"),
    "ILLEGAL_TAG": (400, "Illegal tag"),
    "ILLEGAL_KEY": (400, "Illegal message key"),
    "ILLEGAL_PROPERTY": (400, "Illegal property"),
    "ILLEGAL_FILTER": (400, "Illegal filter"),
    "ILLEGAL_DELIVERY_TIME": (400, "Illegal delivery time"),
    "ILLEGAL_LEASE": (400, "Illegal lease"),
    "ILLEGAL_SETTING": (400, "Illegal setting"),
    "RECEIPT_INVALID": (400, "Invalid receipt"),
    "CURSOR_INVALID": (400, "Invalid cursor"),
    "UNAUTHENTICATED": (401, "No valid API key"),
    "PLAN_LIMIT": (402, "Not included in the plan"),
    "FORBIDDEN": (403, "Not allowed for this key"),
    "QUOTA_EXCEEDED": (403, "Quota exceeded"),
    "NOT_FOUND": (404, "Not found"),
    "NAMESPACE_NOT_FOUND": (404, "Namespace not found"),
    "TOPIC_NOT_FOUND": (404, "Topic not found"),
    "GROUP_NOT_FOUND": (404, "Group not found"),
    "QUEUE_NOT_FOUND": (404, "Queue not found"),
    "MESSAGE_NOT_FOUND": (404, "Message not found"),
    "TASK_NOT_FOUND": (404, "Task not found"),
    "ALERT_NOT_FOUND": (404, "Alert not found"),
    "ISSUE_NOT_FOUND": (404, "Issue not found"),
    "SCHEDULE_NOT_FOUND": (404, "Schedule not found"),
    "MASK_NOT_FOUND": (404, "Masking rule not found"),
    "SEARCH_NOT_FOUND": (404, "Search not found"),
    "SCHEMA_NOT_FOUND": (404, "Schema not found"),
    "KEY_NOT_FOUND": (404, "API key not found"),
    "MEMBER_NOT_FOUND": (404, "Member not found"),
    "INVITATION_NOT_FOUND": (404, "Invitation not found"),
    "REPORT_NOT_FOUND": (404, "Report not found"),
    "METHOD_NOT_ALLOWED": (405, "Method not allowed"),
    "NOT_ACCEPTABLE": (406, "No acceptable representation"),
    "REQUEST_TIMEOUT": (408, "Request took too long to arrive"),
    "NAMESPACE_READ_ONLY": (409, "The namespace is read-only"),
    "CONFLICT": (409, "Conflicts with the current state"),
    "MESSAGE_TYPE_CONFLICT": (409, "Message does not fit the topic's type"),
    "ALREADY_DELIVERED": (409, "Already delivered"),
    "IDEMPOTENCY_IN_PROGRESS": (409, "The first request with this key is still running"),
    "SUBSCRIPTION_CONFLICT": (409, "The group has another subscription to this topic"),
    "LEASE_EXPIRED": (410, "Lease expired and the message was leased again"),
    "PRECONDITION_FAILED": (412, "Precondition failed"),
    "BODY_TOO_LARGE": (413, "Body too large"),
    "PROPERTIES_TOO_LARGE": (413, "Properties too large"),
    "UNSUPPORTED_MEDIA_TYPE": (415, "Unsupported media type"),
    "SCHEMA_REJECTED": (422, "Rejected by the topic's schema"),
    "IDEMPOTENCY_KEY_REUSED": (409, "Idempotency key used with another payload"),
    "RATE_LIMITED": (429, "Too many requests"),
    "INFLIGHT_LIMIT": (429, "Too many messages in flight"),
    "HEADERS_TOO_LARGE": (431, "Request headers too large"),
    "INTERNAL": (500, "Internal error"),
    "ENGINE_UNAVAILABLE": (503, "Storage engine unavailable"),
    "REPLICATION_UNAVAILABLE": (503, "Replicated log unavailable"),
    "OUTCOME_UNKNOWN": (503, "Outcome unknown"),
    "METADATA_UNAVAILABLE": (503, "Configuration store unavailable"),
    "TICKETS_UNAVAILABLE": (503, "Tickets unavailable"),
    "CONNECTIONS_UNKNOWN": (503, "Connections unavailable"),
    "NOT_LEADER": (503, "Not the leader"),
    "DRAINING": (503, "Shutting down"),
    "STORAGE_BUSY": (503, "Storage busy"),
    "HTTP_VERSION_UNSUPPORTED": (505, "HTTP version not supported"),
    "STORAGE_FULL": (507, "Storage full"),
}

RETRYABLE_CODES: Final = frozenset({
    "REQUEST_TIMEOUT", "IDEMPOTENCY_IN_PROGRESS", "RATE_LIMITED", "INFLIGHT_LIMIT",
    "ENGINE_UNAVAILABLE", "OUTCOME_UNKNOWN", "METADATA_UNAVAILABLE", "TICKETS_UNAVAILABLE",
    "CONNECTIONS_UNKNOWN", "REPLICATION_UNAVAILABLE",
    "NOT_LEADER", "DRAINING", "STORAGE_BUSY", "STORAGE_FULL", "SUBSCRIPTION_CONFLICT",
})  # fmt: skip


class ProblemItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault of a request: ``pointer`` is the JSON pointer of the place."""

    pointer: str
    code: str
    detail: str = ""


class Problem(Exception):
    """A refusal that is sent to the client as it stands."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        retryable: bool = False,
        retry_after_ms: int | None = None,
        errors: Sequence[ProblemItem] = (),
        stored: bool | None = None,
    ) -> None:
        assert code in CODES, code
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.errors = list(errors)
        self.stored = stored

    @classmethod
    def of(
        cls,
        code: str,
        detail: str,
        *,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
        errors: Sequence[ProblemItem] = (),
        stored: bool | None = None,
    ) -> Problem:
        """A problem whose status, and unless given ``retryable``, come from the tables above."""
        return cls(
            CODES[code][0],
            code,
            detail,
            retryable=code in RETRYABLE_CODES if retryable is None else retryable,
            retry_after_ms=retry_after_ms,
            errors=errors,
            stored=stored,
        )

    @property
    def title(self) -> str:
        return CODES[self.code][1]

    @property
    def headers(self) -> dict[str, str]:
        """Response headers this problem asks for besides the content type."""
        headers: dict[str, str] = {}
        if self.status == 401:
            headers["www-authenticate"] = 'Bearer realm="mqservice"'
        if self.retry_after_ms is not None:
            headers["retry-after"] = str(max(1, -(-self.retry_after_ms // 1000)))
        return headers


class _Document(msgspec.Struct, frozen=True):
    type: str
    title: str
    status: int
    code: str
    detail: str
    instance: str
    request_id: str
    retryable: bool
    retry_after_ms: int | None
    errors: list[ProblemItem]
    stored: bool | msgspec.UnsetType = msgspec.UNSET


_encoder = msgspec.json.Encoder()


def slug(code: str) -> str:
    """``TOPIC_NOT_FOUND`` -> ``topic-not-found``, the last part of the problem's type."""
    return code.lower().replace("_", "-")


def problem_bytes(problem: Problem, *, instance: str, request_id: str) -> bytes:
    """The body of the answer. ``instance`` is the request's path without its query."""
    return _encoder.encode(
        _Document(
            type="/errors/" + slug(problem.code),
            title=problem.title,
            status=problem.status,
            code=problem.code,
            detail=problem.detail,
            instance=instance,
            request_id=request_id,
            retryable=problem.retryable,
            retry_after_ms=problem.retry_after_ms,
            errors=problem.errors,
            stored=msgspec.UNSET if problem.stored is None else problem.stored,
        )
    )
