"""Common to every response of Django: a request ID, safe headers, errors as problem documents.

    request ─▶ RequestId ─▶ SecurityHeaders ─▶ ... ─▶ Problem ─▶ view
    answer  ◀─ x-request-id ◀─ CSP and kin ◀─ ... ◀─ problem+json under /v1/ ◀─ view

The data plane does not pass here; its headers are in ``safe_headers``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from wsgiref.headers import Headers

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from mqservice.lib.json_logs import client_address_var, request_id_var, user_agent_var
from mqservice.lib.problem import CONTENT_TYPE, Problem, problem_bytes
from mqservice.lib.request_ids import accepted_request_id
from mqservice.lib.safe_headers import transport_security

log = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase]
API_PREFIX: Final = "/v1/"
ASKED_FOR: Final = "mq.tenant_id"  # in an ASGI scope: of which tenant the request's key is
HAS_SESSION: Final = "mq.has_session"  # in an ASGI scope: a person is signed in

CONTENT_SECURITY_POLICY: Final = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "object-src 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types default",  # see frontend/src/js/trusted.js
))  # fmt: skip
PERMISSIONS_POLICY: Final = ", ".join(
    f"{feature}=()"
    for feature in ("camera", "microphone", "geolocation", "payment", "usb", "interest-cohort")
)
_STATUS_CODES: Final = {
    400: "BAD_REQUEST",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "BODY_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
}


class RequestIdMiddleware:
    """Gives the request its id: the server's if it set one, else the caller's, else a new one."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        scope = getattr(request, "scope", {})
        request_id = scope.get("mq.request_id") or accepted_request_id(
            request.headers.get("x-request-id")
        )
        request.META["MQ_REQUEST_ID"] = request_id
        token = request_id_var.set(request_id)
        # The server's own word: it believes no header, unless the operator has named a proxy.
        address = client_address_var.set(str(request.META.get("REMOTE_ADDR") or ""))
        agent = user_agent_var.set(request.headers.get("User-Agent", ""))
        try:
            response = self.get_response(request)
        finally:
            user_agent_var.reset(agent)
            client_address_var.reset(address)
            request_id_var.reset(token)
        response["x-request-id"] = request_id
        user = getattr(request, "_cached_user", None)  # who does not ask for it need not be told
        if user is not None and user.is_authenticated:
            scope[HAS_SESSION] = True
        return response


class SecurityHeadersMiddleware:
    """Headers by which a browser limits what a page of ours can do."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response["Permissions-Policy"] = PERMISSIONS_POLICY
        response["Cross-Origin-Resource-Policy"] = "same-origin"
        # Django sets these further in, which what a middleware answers in its place has not passed.
        response["X-Content-Type-Options"] = "nosniff"
        response["X-Frame-Options"] = settings.X_FRAME_OPTIONS
        response["Referrer-Policy"] = settings.SECURE_REFERRER_POLICY
        response["Cross-Origin-Opener-Policy"] = settings.SECURE_CROSS_ORIGIN_OPENER_POLICY
        response.setdefault("Cache-Control", "no-store")
        if hsts := transport_security():
            # Also where the proxy that ends TLS does not tell us so.
            response["Strict-Transport-Security"] = hsts
        return response


def add_static_headers(headers: Headers, path: str, url: str) -> None:
    """The same for files, which are served before any other middleware is asked."""
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = settings.SECURE_REFERRER_POLICY
    if hsts := transport_security():
        headers["Strict-Transport-Security"] = hsts
    headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    headers["Cross-Origin-Resource-Policy"] = "same-origin"


class ProblemMiddleware:
    """Under ``/v1/`` every refusal is a problem document, also those Django makes by itself."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_api = request.path.startswith(API_PREFIX)
        if not is_api or response.status_code < 400 or _is_problem(response):
            return response
        code = _STATUS_CODES.get(response.status_code)
        if code is None:
            code = "BAD_REQUEST" if response.status_code < 500 else "INTERNAL"
        answer = problem_response(request, Problem.of(code, _DETAILS.get(code, "")))
        if "Allow" in response:
            answer["Allow"] = response["Allow"]
        return answer

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A ``Problem`` raised by a view becomes the answer."""
        if isinstance(exception, Problem):
            return problem_response(request, exception)
        return None


_DETAILS: Final = {
    "NOT_FOUND": "there is nothing at this path",
    "METHOD_NOT_ALLOWED": "this path takes other methods; the Allow header lists them",
    "BAD_REQUEST": "the request is malformed",
    "FORBIDDEN": "the request was refused",
    "BODY_TOO_LARGE": "the body is larger than this path takes",
    "INTERNAL": "the service failed; the request id identifies the failure in the log",
}


def request_id_of(request: HttpRequest) -> str:
    """The id ``RequestIdMiddleware`` gave the request."""
    return str(request.META.get("MQ_REQUEST_ID", ""))


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The answer that tells ``problem``."""
    return HttpResponse(
        problem_bytes(problem, instance=request.path, request_id=request_id_of(request)),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers=problem.headers,
    )


def _is_problem(response: HttpResponseBase) -> bool:
    return response.get("Content-Type", "").startswith(CONTENT_TYPE)
