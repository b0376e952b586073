"""``Idempotency-Key`` on POSTs of a namespace: carried out once, same response every time.

    POST with a key ──▶ row (one transaction) ──new──▶ view ──▶ answer kept ──▶ commit
                              └─ there ──▶ same content: its answer again; another: 409

The row and what the view does are one transaction: a crash leaves both or neither. Of two that come
together the second waits for the first in the unique index, and then finds its answer.

An answer is given again only to who got it the first time, and only with the rights of then: what
the view would refuse now is refused, without knowing what the view checks. To anybody else the same
key is a new one. Requests without a key pass by.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone

from mqservice.accounts.access import Principal
from mqservice.accounts.rest import authenticate_writer
from mqservice.idempotency.models import KEY_CHARS_MAX, AnsweredRequest
from mqservice.lib.middleware import problem_response
from mqservice.lib.problem import Problem

WINDOW: Final = timedelta(hours=24)
# Answers of these hold no secrets; those of others, such as a new API key's, must not be kept.
_PATHS: Final = "/v1/ns/"
_API: Final = "/v1/"
_KEY: Final = re.compile(rf"[!-~]{{1,{KEY_CHARS_MAX}}}")
_SAVED_HEADERS: Final = ("ETag", "Location")
_RETRY_MS: Final = 1_000
_INSERT: Final = (
    "INSERT INTO idempotency_answeredrequest"
    " (tenant_id, actor, rights, key, fingerprint, status, content_type, headers, body, created_at)"
    " VALUES (%s, %s, %s, %s, %s, 0, '', '{}', '', %s)"
    " ON CONFLICT (tenant_id, actor, key) DO NOTHING RETURNING id"
)
View = Callable[..., HttpResponseBase]


class IdempotencyMiddleware:
    """See the module's docstring."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: View,
        arguments: tuple[Any, ...],  # Any: of whatever view it is
        keywords: dict[str, Any],  # Any: as above
    ) -> HttpResponseBase | None:
        """The answer of a request with a key; None lets the view answer."""
        key = request.headers.get("Idempotency-Key")
        if key is None or request.method != "POST" or not request.path.startswith(_API):
            return None
        try:
            if not request.path.startswith(_PATHS):
                raise Problem.of(
                    "BAD_REQUEST",
                    "this path does not support Idempotency-Key; leave the header out",
                )
            if not _KEY.fullmatch(key):
                detail = f"Idempotency-Key must be 1 to {KEY_CHARS_MAX} visible ASCII characters"
                raise Problem.of("BAD_REQUEST", detail)
            principal = authenticate_writer(request)
            return _respond_once(
                principal, key, request, lambda: view(request, *arguments, **keywords)
            )
        except Problem as problem:
            return problem_response(request, problem)


def _respond_once(
    principal: Principal, key: str, request: HttpRequest, answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    """Raises Problem IDEMPOTENCY_KEY_REUSED; FORBIDDEN when the rights are others than at the first
    request; IDEMPOTENCY_IN_PROGRESS when that takes long.

    One query more than the view's, and one when the answer is kept.
    """
    fingerprint = hashlib.sha256(request.get_full_path().encode() + b"\0" + request.body).digest()
    with transaction.atomic():
        rights = _digest_of_rights(principal)
        row_id = _claim_key(principal, rights, key, fingerprint)
        if row_id is None:
            row = AnsweredRequest.objects.get(
                tenant=principal.tenant_id, actor=principal.actor, key=key
            )
            return _repeat_response(row, rights, fingerprint)
        response = answer()
        if connection.needs_rollback:
            return response
        own = AnsweredRequest.objects.filter(pk=row_id)
        if response.status_code >= 400 or not isinstance(response, HttpResponse):
            own.delete()
        else:
            own.update(
                status=response.status_code,
                content_type=response.headers.get("Content-Type", ""),
                headers={name: response[name] for name in _SAVED_HEADERS if name in response},
                body=response.content,
            )
        return response


def _claim_key(principal: Principal, rights: bytes, key: str, fingerprint: bytes) -> int | None:
    """The new row's id; None when there is one that still counts."""
    now = timezone.now()
    tenant_id, actor = principal.tenant_id, principal.actor
    AnsweredRequest.objects.filter(
        tenant=tenant_id, actor=actor, key=key, created_at__lt=now - WINDOW
    ).delete()
    try:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, (tenant_id, actor, rights, key, fingerprint, now))
            found = cursor.fetchone()
    except OperationalError as exc:
        raise Problem.of(
            "IDEMPOTENCY_IN_PROGRESS",
            "the first request with this key is still being processed",
            retry_after_ms=_RETRY_MS,
        ) from exc
    return None if found is None else int(found[0])


def _digest_of_rights(principal: Principal) -> bytes:
    """The same for the same namespace, role, scopes and grants."""
    grants = sorted(grant.text for grant in principal.all_grants)
    text = "\n".join([str(principal.namespace_id), principal.role, *grants])
    return hashlib.sha256(text.encode()).digest()


def _repeat_response(row: AnsweredRequest, rights: bytes, fingerprint: bytes) -> HttpResponse:
    if bytes(row.fingerprint) != fingerprint:
        raise Problem.of(
            "IDEMPOTENCY_KEY_REUSED",
            "another request was already sent with this key; use a new key",
        )
    if bytes(row.rights) != rights:
        raise Problem.of(
            "FORBIDDEN",
            "the rights of this API key have changed since its first request with "
            "this Idempotency-Key, which was carried out: check what it did, or use "
            "a new key",
        )
    response = HttpResponse(
        bytes(row.body), status=row.status, content_type=row.content_type or None
    )
    for name, value in row.headers.items():
        response[name] = value
    response["Idempotency-Replayed"] = "true"
    return response
