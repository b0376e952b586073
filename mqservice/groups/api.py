"""Consumer groups over REST: ``/v1/ns/{ns}/groups`` and ``/v1/ns/{ns}/groups/{group}``.

Paths with a verb stand before those without: ``{group}`` would match ``billing:pause`` too.
"""

from __future__ import annotations

from typing import Annotated

from django.http import HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Kind, Scope
from mqservice.groups.queries import GROUPS_PAGE_MAX, get_group, groups_of, progress
from mqservice.groups.schemas import GroupListOut, GroupOut, read_change
from mqservice.groups.services import delete_group, pause_group, put_group
from mqservice.lib.etags import etag, revision_of
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.store import blocking_client

router = Router(tags=["groups"])


@router.get("/ns/{ns}/groups", response=GroupListOut)
def list_groups(
    request: AuthedRequest,
    ns: str,
    after: str = "",
    contains: Annotated[str, Field(max_length=NAME_CHARS_MAX)] = "",
    limit: Annotated[int, Field(ge=1, le=GROUPS_PAGE_MAX)] = GROUPS_PAGE_MAX,
) -> GroupListOut:
    """List groups, by name; with ``contains`` those whose name contains it, in any case. Two
    queries."""
    namespace = get_namespace(request.auth, ns)
    groups = groups_of(namespace, after=after, contains=contains, limit=limit)
    return GroupListOut(
        groups=[GroupOut.of(group) for group in groups],
        next=groups[-1].name if len(groups) == limit else None,
    )


@router.post("/ns/{ns}/groups/{group}:pause", response=GroupOut, operation_id="pauseGroup")
def pause(request: AuthedRequest, response: HttpResponse, ns: str, group: str) -> GroupOut:
    """Pause a group: it gets no messages until it is resumed; messages in flight can be settled."""
    return _paused(request, response, ns, group, is_paused=True)


@router.post("/ns/{ns}/groups/{group}:resume", response=GroupOut, operation_id="resumeGroup")
def resume(request: AuthedRequest, response: HttpResponse, ns: str, group: str) -> GroupOut:
    """Resume a group; waiting receives get their messages immediately."""
    return _paused(request, response, ns, group, is_paused=False)


def _paused(
    request: AuthedRequest, response: HttpResponse, ns: str, group: str, *, is_paused: bool
) -> GroupOut:
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.GROUP, group)
    revision = revision_of(request.headers.get("If-Match"))
    row = pause_group(namespace, group, is_paused=is_paused, revision=revision, by=request.auth)
    response["ETag"] = etag(row.revision)
    return GroupOut.of(row)


@router.get("/ns/{ns}/groups/{group}", response=GroupOut)
def read_group(request: AuthedRequest, response: HttpResponse, ns: str, group: str) -> GroupOut:
    """Read one group with its lag per queue. Two queries, one call to the engine."""
    row = get_group(get_namespace(request.auth, ns), group)
    with blocking_client(row.namespace.shard) as client:
        stats = progress(client, row)
    response["ETag"] = etag(row.revision)
    return GroupOut.of(row, stats)


@router.put("/ns/{ns}/groups/{group}", response={200: GroupOut, 201: GroupOut})
def write_group(
    request: AuthedRequest, response: HttpResponse, ns: str, group: str
) -> Status[GroupOut]:
    """Create or change a group: 201 when it is new. ``If-Match`` guards against a lost update.

    The body is read here, not by the framework, so that one answer names all its faults.
    """
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.GROUP, group)
    change = read_change(request.body)
    revision = revision_of(request.headers.get("If-Match"))
    row, is_new = put_group(namespace, group, change, revision=revision, by=request.auth)
    response["ETag"] = etag(row.revision)
    return Status(201 if is_new else 200, GroupOut.of(row))


@router.delete("/ns/{ns}/groups/{group}", response={204: None})
def remove_group(request: AuthedRequest, ns: str, group: str) -> Status[None]:
    """Delete a group with its progress, its retries and its dead letters."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE, Kind.GROUP, group)
    revision = revision_of(request.headers.get("If-Match"))
    delete_group(namespace, group, revision=revision, by=request.auth)
    return Status(204, None)
