"""Denies sockets to user sessions from which masking hides something, because sockets do not mask.

ticket of a session ──▶ principal ──▶ [without_hidden] ──▶ the same, or one that consumes nothing
"""

from __future__ import annotations

from dataclasses import replace

from mqservice.accounts.access import Principal
from mqservice.accounts.scopes import Scope
from mqservice.masking.masks import masks_of


def without_hidden(principal: Principal) -> Principal:
    """Without the scope consume where masking hides anything of the namespace. Two queries."""
    assert principal.namespace is not None, "a session's ticket is for one namespace"
    masks = masks_of(principal.tenant_id, principal.namespace, principal.role)
    if masks.is_none:
        return principal
    return replace(principal, scopes=principal.scopes - {Scope.CONSUME}, _decisions={})
