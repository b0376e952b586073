"""Authenticates control-plane requests: the same keys as on the data plane, read without a
cache.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest

from mqservice.accounts.access import HEADER_BYTES_MAX, Principal, find_principal, unauthenticated
from mqservice.accounts.key_failures import failures
from mqservice.accounts.read_only import reject_change
from mqservice.lib.json_logs import client_address_var
from mqservice.lib.problem import Problem

_KNOWN: Final = "_mq_principal"


class AuthedRequest(HttpRequest):
    """A request that ``authenticate`` has let through."""

    auth: Principal


def authenticate(request: HttpRequest) -> Principal:
    """The principal of the Authorization header. Raises Problem 401, 429.

    One query, and one wrong key counted, for all who ask about the same request.
    """
    known: Principal | Problem | None = getattr(request, _KNOWN, None)
    if known is None:
        try:
            known = _find(request)
        except Problem as problem:
            known = problem
        setattr(request, _KNOWN, known)
    if isinstance(known, Problem):
        raise known
    return known


def authenticate_writer(request: HttpRequest) -> Principal:
    """``authenticate``, and for what would change a read-only namespace a refusal, 409."""
    principal = authenticate(request)
    match = request.resolver_match
    ns = None if match is None else match.kwargs.get("ns")
    if ns is not None:
        reject_change(principal, request.method or "", request.path, ns)
    return principal


def _find(request: HttpRequest) -> Principal:
    header = request.headers.get("Authorization", "").encode("latin-1", "replace")
    principal = find_principal(header) if len(header) <= HEADER_BYTES_MAX else None
    if principal is None:
        address = client_address_var.get()
        failures.check(address)
        failures.note(address)
        raise unauthenticated()
    return principal
