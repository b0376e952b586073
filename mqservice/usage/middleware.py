"""Counts each control plane request, and enforces the tenant's rate limit.

    request with a good key ──▶ [ControlPlaneMiddleware] ── take ──▶ view ──▶ RateLimit headers
                                              └─ nothing left ──▶ 429, Retry-After

Requests without a good key pass by: the view refuses them, or is open to everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponseBase

from mqservice.accounts.rest import authenticate
from mqservice.lib.middleware import API_PREFIX, ASKED_FOR, problem_response
from mqservice.lib.problem import Problem
from mqservice.quotas.control_rate import ControlRate
from mqservice.usage.counts import usage_counts

_TAKEN: Final = "_mq_control_rate"
View = Callable[..., HttpResponseBase]


class ControlPlaneMiddleware:
    """See the module's docstring."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._rate = ControlRate(settings.MQ_VALKEY_URL)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        taken = getattr(request, _TAKEN, None)
        if taken is not None:
            for name, value in taken.headers.items():
                response[name] = value
        return response

    def process_view(
        self,
        request: HttpRequest,
        view: View,
        arguments: tuple[Any, ...],  # Any: of whatever view it is
        keywords: dict[str, Any],  # Any: as above
    ) -> HttpResponseBase | None:
        """The refusal of a request that is one too many; None lets the view answer."""
        if not request.path.startswith(API_PREFIX) or "Authorization" not in request.headers:
            return None
        try:
            tenant_id = authenticate(request).tenant_id
            getattr(request, "scope", {})[ASKED_FOR] = tenant_id
            taken = self._rate.take(tenant_id)
        except (Problem, DatabaseError, InterfaceError):
            return None  # the view says the same, or that nobody can know
        usage_counts.called_elsewhere(tenant_id)
        setattr(request, _TAKEN, taken)
        if taken.is_taken:
            return None
        return problem_response(
            request,
            Problem.of(
                "RATE_LIMITED",
                "the tenant's limit of control plane requests is used up: "
                f"{taken.limit} per second",
                retry_after_ms=taken.retry_ms,
            ),
        )
