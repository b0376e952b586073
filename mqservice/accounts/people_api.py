"""Namespaces, members and invitations over REST.

GET /v1/namespaces; GET, PUT, PATCH, DELETE /v1/namespaces/{name}
GET /v1/members; GET, PATCH, DELETE /v1/members/{username}
GET, POST /v1/invitations; GET, DELETE /v1/invitations/{id}; POST /v1/invitations:accept
"""

from __future__ import annotations

from typing import Annotated

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status
from pydantic import Field

from mqservice.accounts.invitation_services import invite, revoke_invitation
from mqservice.accounts.join_tenant import join
from mqservice.accounts.limits import PAGE_MAX
from mqservice.accounts.member_services import change_member, remove_member
from mqservice.accounts.models import Role
from mqservice.accounts.namespace_services import delete_namespace, put_namespace
from mqservice.accounts.people_schemas import (
    InvitationListOut,
    InvitationOut,
    JoinedOut,
    MemberListOut,
    MemberOut,
    NamespaceIn,
    NamespaceListOut,
    NamespaceOut,
    NewInvitationOut,
    read_invitation,
    read_join_request,
    read_role,
)
from mqservice.accounts.queries import (
    get_invitation,
    get_member,
    get_namespace,
    invitations_after,
    members_after,
    visible_namespaces,
)
from mqservice.accounts.read_only import set_read_only
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.roles import Permission
from mqservice.lib.etags import etag, revision_of

router = Router(tags=["people"])
Limit = Annotated[int, Field(ge=1, le=PAGE_MAX)]


@router.get("/namespaces", response=NamespaceListOut)
def list_namespaces(
    request: AuthedRequest, after: str = "", limit: Limit = PAGE_MAX
) -> NamespaceListOut:
    """List namespaces, by name. One query."""
    request.auth.require_permission(Permission.NAMESPACES_READ)
    rows = visible_namespaces(request.auth, after=after, limit=limit)
    return NamespaceListOut(
        namespaces=[NamespaceOut.of(row) for row in rows],
        next=rows[-1].name if len(rows) == limit else None,
    )


@router.get("/namespaces/{name}", response=NamespaceOut)
def read_namespace(request: AuthedRequest, name: str) -> NamespaceOut:
    """Read one namespace of the tenant. One query."""
    request.auth.require_permission(Permission.NAMESPACES_READ)
    return NamespaceOut.of(get_namespace(request.auth, name))


@router.put("/namespaces/{name}", response={200: NamespaceOut, 201: NamespaceOut})
def write_namespace(request: AuthedRequest, name: str) -> Status[NamespaceOut]:
    """Create a namespace: 201 when it is new. It has no settings."""
    request.auth.require_permission(Permission.NAMESPACES_MANAGE)
    row, is_new = put_namespace(request.auth, name)
    return Status(201 if is_new else 200, NamespaceOut.of(row))


@router.patch("/namespaces/{name}", response=NamespaceOut)
def change_namespace(request: AuthedRequest, name: str, change: NamespaceIn) -> NamespaceOut:
    """Turn read-only mode of a namespace on or off. In read-only mode, changes through the console
    or these paths get `NAMESPACE_READ_ONLY`; producing and consuming continue, and so do running
    tasks."""
    request.auth.require_permission(Permission.NAMESPACES_MANAGE)
    row = set_read_only(
        request.auth, name, is_read_only=change.read_only, reason=change.reason.strip()
    )
    return NamespaceOut.of(row)


@router.delete("/namespaces/{name}", response={204: None})
def remove_namespace(request: AuthedRequest, name: str) -> Status[None]:
    """Delete an empty namespace, with its alerts, schedules and the keys bound to it."""
    request.auth.require_permission(Permission.NAMESPACES_MANAGE)
    delete_namespace(request.auth, name)
    return Status(204, None)


@router.get("/members", response=MemberListOut)
def list_members(request: AuthedRequest, after: str = "", limit: Limit = PAGE_MAX) -> MemberListOut:
    """List members, by user name. One query."""
    request.auth.require_permission(Permission.MEMBERS_READ)
    rows = members_after(request.auth, after=after, limit=limit)
    return MemberListOut(
        members=[MemberOut.of(row) for row in rows],
        next=rows[-1].user.username if len(rows) == limit else None,
    )


@router.get("/members/{username}", response=MemberOut)
def read_member(request: AuthedRequest, response: HttpResponse, username: str) -> MemberOut:
    """Read one member with the role. One query."""
    request.auth.require_permission(Permission.MEMBERS_READ)
    row = get_member(request.auth, username)
    response["ETag"] = etag(row.revision)
    return MemberOut.of(row)


@router.patch("/members/{username}", response=MemberOut)
def update_member(request: AuthedRequest, response: HttpResponse, username: str) -> MemberOut:
    """Give a member another role. ``If-Match`` guards against a lost update."""
    request.auth.require_permission(Permission.MEMBERS_MANAGE)
    role = read_role(request.body)
    revision = revision_of(request.headers.get("If-Match"))
    row = change_member(request.auth, username, role, revision=revision)
    response["ETag"] = etag(row.revision)
    return MemberOut.of(row)


@router.delete("/members/{username}", response={204: None})
def delete_member(request: AuthedRequest, username: str) -> Status[None]:
    """Remove a member from the tenant."""
    request.auth.require_permission(Permission.MEMBERS_MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    remove_member(request.auth, username, revision=revision)
    return Status(204, None)


@router.get("/invitations", response=InvitationListOut)
def list_invitations(
    request: AuthedRequest, after: str = "", limit: Limit = PAGE_MAX
) -> InvitationListOut:
    """List invitations, by id, including expired ones. One query."""
    request.auth.require_permission(Permission.MEMBERS_MANAGE)
    rows = invitations_after(request.auth, after=after, limit=limit)
    return InvitationListOut(
        invitations=[InvitationOut.of(row) for row in rows],
        next=rows[-1].public_id if len(rows) == limit else None,
    )


@router.post("/invitations", response={201: NewInvitationOut})
def create_invitation(request: AuthedRequest, response: HttpResponse) -> Status[NewInvitationOut]:
    """Invite a user; only this response contains the token."""
    request.auth.require_permission(Permission.MEMBERS_MANAGE)
    order = read_invitation(request.body)
    row, token = invite(request.auth, order.email, order.role, order.life)
    response["Location"] = f"/v1/invitations/{row.public_id}"
    shown = InvitationOut.of(row).dict()
    link = f"{settings.MQ_BASE_URL}/account/join/{token.text}/"
    return Status(201, NewInvitationOut(**shown, token=token.text, link=link))


@router.post("/invitations:accept", response={201: JoinedOut}, auth=None)
def accept(request: HttpRequest) -> Status[JoinedOut]:
    """Accept an invitation by its token, as a new user or, with the right password, as an existing
    one."""
    member = join(read_join_request(request.body))
    return Status(
        201,
        JoinedOut(tenant=member.tenant.name, username=member.user.username, role=Role(member.role)),
    )


@router.get("/invitations/{invitation_id}", response=InvitationOut)
def read_one_invitation(request: AuthedRequest, invitation_id: str) -> InvitationOut:
    """Read one invitation, without its token. One query."""
    request.auth.require_permission(Permission.MEMBERS_MANAGE)
    return InvitationOut.of(get_invitation(request.auth, invitation_id))


@router.delete("/invitations/{invitation_id}", response={204: None})
def withdraw_invitation(request: AuthedRequest, invitation_id: str) -> Status[None]:
    """Withdraw an open invitation."""
    request.auth.require_permission(Permission.MEMBERS_MANAGE)
    revoke_invitation(request.auth, invitation_id)
    return Status(204, None)
