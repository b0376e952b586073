"""Namespaces, members and invitations on the wire of the control plane."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone
from ninja import Schema
from pydantic import ConfigDict

from mqservice.accounts.join_tenant import JoinRequest
from mqservice.accounts.limits import INVITATION_LIFE_DEFAULT, INVITATION_LIFE_MAX
from mqservice.accounts.models import Invitation, Member, Namespace, Role
from mqservice.lib.json_fields import Fields, read_object, shown
from mqservice.lib.wire import moment

_MS = timedelta(milliseconds=1)
_EMAIL_CHARS_MAX = 254
_TEXT_CHARS_MAX = 256


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
    fields = read_object(body)
    role = _role(fields)
    fields.reject_unknown()
    fields.reject()
    return role


def read_invitation(body: bytes) -> NewInvitation:
    """Raises Problem that names every fault."""
    fields = read_object(body)
    email = fields.find("email")
    try:
        if not isinstance(email, str) or len(email) > _EMAIL_CHARS_MAX:
            raise ValidationError("")
        validate_email(email)
    except ValidationError:
        fields.fault("email", f"must be an email address, found {shown(email)}")
    role = _role(fields)
    life_ms = fields.duration_ms("expires_in", 60_000, INVITATION_LIFE_MAX // _MS)
    fields.reject_unknown()
    fields.reject()
    life = INVITATION_LIFE_DEFAULT if life_ms is None else life_ms * _MS
    return NewInvitation(email=str(email), role=role, life=life)


def read_join_request(body: bytes) -> JoinRequest:
    """Raises Problem that names every fault, and never shows a value."""
    fields = read_object(body)
    texts = {}
    for name in ("token", "username", "password"):
        value = fields.find(name)
        if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_CHARS_MAX or "\0" in value:
            fields.fault(name, f"must be a string of 1 to {_TEXT_CHARS_MAX} characters without NUL")
        else:
            texts[name] = value
    fields.reject_unknown()
    fields.reject()
    return JoinRequest(**texts)


def _role(fields: Fields) -> Role:
    role = fields.choice("role", Role)
    if fields.find("role") is None:
        fields.fault("role", f"is missing; one of {', '.join(Role)}")
    return role or Role.VIEWER


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
