"""Namespaces, members and invitations on the wire of the control plane."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone
from ninja import Schema
from pydantic import ConfigDict

from mqservice.accounts.join_tenant import JoinRequest
from mqservice.accounts.limits import INVITATION_LIFE_DEFAULT
from mqservice.accounts.models import Invitation, Member, Namespace, Role
from mqservice.accounts.settings import INVITATION, JOIN, MEMBER, MS
from mqservice.lib.settings_table import read_body
from mqservice.lib.wire import moment


class InvitationState(enum.StrEnum):
    OPEN = "open"
    ACCEPTED = "accepted"
    REVOKED = "revoked"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInvitation:
    """An invitation to be made."""

    email: str
    role: Role
    life: timedelta


def read_role(body: bytes) -> Role:
    """The role that a member is to have. Raises Problem that names every fault."""
    role: Role = read_body(MEMBER, body)["role"]
    return role


def read_invitation(body: bytes) -> NewInvitation:
    """Raises Problem that names every fault."""
    values = read_body(INVITATION, body)
    life_ms = values["expires_in"]
    life = INVITATION_LIFE_DEFAULT if life_ms is None else life_ms * MS
    return NewInvitation(email=values["email"], role=values["role"], life=life)


def read_join_request(body: bytes) -> JoinRequest:
    """Raises Problem that names every fault, and never shows a value."""
    return JoinRequest(**read_body(JOIN, body))


class NamespaceIn(Schema):
    """`reason`: shown to other users while it is read-only."""

    model_config = ConfigDict(extra="forbid")

    read_only: bool
    reason: str = ""


class ReadOnlyOut(Schema):
    """`by`: like the audit's actor."""

    since: str
    by: str
    reason: str


class NamespaceOut(Schema):
    """`read_only`: null, or since when the namespace is read-only, who set it and why."""

    name: str
    created_at: str
    read_only: ReadOnlyOut | None

    @classmethod
    def of(cls, row: Namespace) -> NamespaceOut:
        held = None
        if row.read_only_since is not None:
            held = ReadOnlyOut(
                since=moment(row.read_only_since),
                by=row.read_only_by,
                reason=row.read_only_reason,
            )
        return cls(name=row.name, created_at=moment(row.created_at), read_only=held)


class NamespaceListOut(Schema):
    """A page, by name; ``next`` is the ``after`` of the following page, null on the last one."""

    namespaces: list[NamespaceOut]
    next: str | None


class MemberOut(Schema):
    username: str
    role: Role
    created_at: str

    @classmethod
    def of(cls, row: Member) -> MemberOut:
        return cls(
            username=row.user.username, role=Role(row.role), created_at=moment(row.created_at)
        )


class MemberListOut(Schema):
    """A page, by user name; ``next`` as in lists of namespaces."""

    members: list[MemberOut]
    next: str | None


class JoinedOut(Schema):
    tenant: str
    username: str
    role: Role


class InvitationOut(Schema):
    id: str
    email: str
    role: Role
    state: InvitationState
    invited_by: str
    created_at: str
    expires_at: str

    @classmethod
    def of(cls, row: Invitation) -> InvitationOut:
        return cls(
            id=row.public_id,
            email=row.email,
            role=Role(row.role),
            state=_state(row),
            invited_by=row.inviter,
            created_at=moment(row.created_at),
            expires_at=moment(row.expires_at),
        )


class NewInvitationOut(InvitationOut):
    """`token` is shown only in this response, as is the `link` to the page where it is accepted."""

    token: str
    link: str


class InvitationListOut(Schema):
    """A page, by id; ``next`` as in lists of namespaces."""

    invitations: list[InvitationOut]
    next: str | None


def _state(row: Invitation) -> InvitationState:
    if row.accepted_at is not None:
        return InvitationState.ACCEPTED
    if row.revoked_at is not None:
        return InvitationState.REVOKED
    is_over = row.expires_at <= timezone.now()
    return InvitationState.EXPIRED if is_over else InvitationState.OPEN
