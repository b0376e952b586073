"""Creates, accepts and withdraws invitations: a membership for whoever has the token.

    invite ──▶ row with a MAC, token shown once ──▶ accept_invitation ──▶ Member
                    └─ revoke_invitation, expires_at, ATTEMPTS_MAX: good for nothing

A token that is unknown, used, withdrawn or too old is answered in one and the same way.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.invitation_tokens import Token, new_token, parse_token
from mqservice.accounts.limits import (
    ATTEMPTS_MAX,
    INVITATIONS_MAX,
    MEMBERS_MAX,
    PAST_INVITATIONS_MAX,
)
from mqservice.accounts.models import Invitation, Member, Role, Tenant, User
from mqservice.accounts.queries import get_invitation, open_invitations
from mqservice.accounts.roles import Permission
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms, rfc3339

_NO_MAC: Final = bytes(32)
_DELETED_PER_CALL: Final = 2  # more than are made, so that the number comes down


@transaction.atomic
def invite(
    principal: Principal, email: str, role: Role, life: timedelta
) -> tuple[Invitation, Token]:
    """An invitation and its token, which exists nowhere afterwards.

    Raises Problem: FORBIDDEN to invite an owner, QUOTA_EXCEEDED.
    """
    if role is Role.OWNER:
        principal.require_permission(Permission.OWNERS_MANAGE)
    tenant = Tenant.objects.select_for_update().get(pk=principal.tenant_id)
    _require_room(tenant)
    token = new_token()
    row = Invitation.objects.create(
        tenant=tenant,
        public_id=token.public_id,
        email=email,
        role=role.value,
        token_mac=token.mac,
        inviter=principal.actor,
        expires_at=timezone.now() + life,
    )
    record(principal, tenant, "invitation.create", _target(row), after=_audited(row))
    return row, token


@transaction.atomic
def revoke_invitation(principal: Principal, public_id: str) -> None:
    """Withdraw an invitation that is open.

    Raises Problem: INVITATION_NOT_FOUND, FORBIDDEN for an owner's, CONFLICT when it is over.
    """
    row = get_invitation(principal, public_id, is_locked=True)
    if row.role == Role.OWNER:
        principal.require_permission(Permission.OWNERS_MANAGE)
    open_row = open_invitations(Invitation.objects.filter(pk=row.pk))
    if open_row.update(revoked_at=timezone.now()) == 0:
        raise Problem.of(
            "CONFLICT", f"the invitation {public_id} was already used or withdrawn, or has expired"
        )
    record(principal, row.tenant, "invitation.revoke", _target(row), before=_audited(row))


def find_invitation(text: str) -> Invitation | None:
    """The open invitation of a token. One query; an unknown id costs the same work."""
    token = parse_token(text)
    if token is None:
        return None
    rows = open_invitations(Invitation.objects.select_related("tenant"))
    row = rows.filter(public_id=token.public_id).first()
    kept = _NO_MAC if row is None else bytes(row.token_mac)
    return row if token.matches(kept) else None


def spend_attempt(row: Invitation) -> None:
    """Count one try. Raises Problem INVITATION_NOT_FOUND after ``ATTEMPTS_MAX``."""
    left = Invitation.objects.filter(pk=row.pk, attempt_count__lt=ATTEMPTS_MAX)
    if left.update(attempt_count=F("attempt_count") + 1) == 0:
        raise invalid_token()


@transaction.atomic
def accept_invitation(row: Invitation, user: User) -> Member:
    """Make ``user`` a member; the invitation is used up, whoever brings its token at once.

    Raises Problem: INVITATION_NOT_FOUND, QUOTA_EXCEEDED, or CONFLICT for one who is a member.
    """
    tenant = Tenant.objects.select_for_update().get(pk=row.tenant_id)
    open_row = open_invitations(Invitation.objects.filter(pk=row.pk))
    if open_row.update(accepted_at=timezone.now()) == 0:
        raise invalid_token()
    members = Member.objects.filter(tenant=tenant)
    if members.filter(user=user).exists():
        raise Problem.of("CONFLICT", f"{user.username} is already a member")
    if members.count() >= MEMBERS_MAX:
        raise Problem.of(
            "QUOTA_EXCEEDED", f"a tenant has at most {MEMBERS_MAX} members; remove one first"
        )
    member = Member.objects.create(tenant=tenant, user=user, role=row.role)
    record(
        f"user:{user.username}",
        tenant,
        "member.join",
        f"members/{user.username}",
        {"invitation": row.public_id},
        after={"role": row.role},
    )
    return member


def invalid_token() -> Problem:
    """One answer for every kind of bad token."""
    return Problem.of("INVITATION_NOT_FOUND", "the token does not belong to an open invitation")


def _target(row: Invitation) -> str:
    return f"invitations/{row.public_id}"


def _audited(row: Invitation) -> dict[str, object]:
    end = rfc3339(datetime_ms(row.expires_at))
    return {"email": row.email, "role": row.role, "expires_at": end}


def _require_room(tenant: Tenant) -> None:
    """Refuse one open invitation too many; forget the oldest of too many that are over."""
    rows = Invitation.objects.filter(tenant=tenant)
    is_open = open_invitations(rows)
    if is_open.count() >= INVITATIONS_MAX:
        raise Problem.of(
            "QUOTA_EXCEEDED",
            f"a tenant has at most {INVITATIONS_MAX} open invitations; withdraw one first",
        )
    over = rows.exclude(pk__in=is_open.values("pk")).order_by("-id").values_list("id", flat=True)
    old = list(over[PAST_INVITATIONS_MAX : PAST_INVITATIONS_MAX + _DELETED_PER_CALL])
    Invitation.objects.filter(pk__in=old).delete()
