"""API keys over REST: ``/v1/keys``, ``/v1/keys/{id}``, ``:rotate`` and ``:revoke``.

Paths with a verb stand before those without: ``{key_id}`` would match ``abc:rotate`` too.
"""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.key_schemas import (
    KeyListOut,
    KeyOut,
    NewKeyOut,
    read_change,
    read_new_key,
    read_overlap,
)
from mqservice.accounts.key_services import change_key, issue_key, revoke_key, rotate_key
from mqservice.accounts.limits import PAGE_MAX
from mqservice.accounts.queries import get_key, keys_after
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.roles import Permission
from mqservice.lib.etags import etag, revision_of

router = Router(tags=["keys"])


@router.get("/keys", response=KeyListOut)
def list_keys(
    request: AuthedRequest,
    after: str = "",
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> KeyListOut:
    """List API keys, by id, including revoked ones. One query."""
    request.auth.require_permission(Permission.KEYS_READ)
    rows = keys_after(request.auth, after=after, limit=limit)
    return KeyListOut(
        keys=[KeyOut.of(row) for row in rows],
        next=rows[-1].public_id if len(rows) == limit else None,
    )


@router.post("/keys", response={201: NewKeyOut})
def create_key(request: AuthedRequest, response: HttpResponse) -> Status[NewKeyOut]:
    """Create an API key; only this response contains it.

    The body is read here, not by the framework, so that one answer names all its faults.
    """
    request.auth.require_permission(Permission.KEYS_MANAGE)
    row, text = issue_key(request.auth, read_new_key(request.body))
    response["ETag"] = etag(row.revision)
    response["Location"] = f"/v1/keys/{row.public_id}"
    return Status(201, NewKeyOut.made(row, text))


@router.post("/keys/{key_id}:rotate", response=NewKeyOut)
def rotate(request: AuthedRequest, response: HttpResponse, key_id: str) -> NewKeyOut:
    """Rotate a key: it gets a second secret, and the present one is valid for ``overlap`` more (a
    day)."""
    request.auth.require_permission(Permission.KEYS_MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    row, text = rotate_key(request.auth, key_id, read_overlap(request.body), revision=revision)
    response["ETag"] = etag(row.revision)
    return NewKeyOut.made(row, text)


@router.post("/keys/{key_id}:revoke", response=KeyOut)
def revoke(request: AuthedRequest, response: HttpResponse, key_id: str) -> KeyOut:
    """Revoke a key; requests end within a second, open sockets and waiting receives within five."""
    request.auth.require_permission(Permission.KEYS_MANAGE)
    row = revoke_key(request.auth, key_id, revision=revision_of(request.headers.get("If-Match")))
    response["ETag"] = etag(row.revision)
    return KeyOut.of(row)


@router.get("/keys/{key_id}", response=KeyOut)
def read_key(request: AuthedRequest, response: HttpResponse, key_id: str) -> KeyOut:
    """Read one key, without its secret. One query."""
    request.auth.require_permission(Permission.KEYS_READ)
    row = get_key(request.auth, key_id)
    response["ETag"] = etag(row.revision)
    return KeyOut.of(row)


@router.patch("/keys/{key_id}", response=KeyOut)
def update_key(request: AuthedRequest, response: HttpResponse, key_id: str) -> KeyOut:
    """Change name, scopes, role or expiry of a key. ``If-Match`` guards against a lost update."""
    request.auth.require_permission(Permission.KEYS_MANAGE)
    change = read_change(request.body)
    revision = revision_of(request.headers.get("If-Match"))
    row = change_key(request.auth, key_id, change, revision=revision)
    response["ETag"] = etag(row.revision)
    return KeyOut.of(row)
