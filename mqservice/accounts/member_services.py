"""Changes the members of a tenant. One transaction each, audited.

Only who may manage owners makes somebody one, or takes that away; a tenant always has an owner,
whoever asks for what at the same time.
"""

from __future__ import annotations

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Member, Role, Tenant
from mqservice.accounts.queries import get_member
from mqservice.accounts.roles import Permission
from mqservice.lib.etags import require_revision
from mqservice.lib.problem import Problem


@transaction.atomic
def change_member(
    principal: Principal, username: str, role: Role, *, revision: int | None = None
) -> Member:
    """Give a member another role.

    Raises Problem: MEMBER_NOT_FOUND, PRECONDITION_FAILED, FORBIDDEN, CONFLICT for the last owner.
    """
    tenant, member = _lock(principal, username, revision)
    before = Role(member.role)
    if role is before:
        return member
    if Role.OWNER in (before, role):
        principal.require_permission(Permission.OWNERS_MANAGE)
    if before is Role.OWNER:
        _require_another_owner(tenant)
    member.role = role.value
    member.revision += 1
    member.save(update_fields=["role", "revision"])
    record(
        principal,
        tenant,
        "member.update",
        f"members/{username}",
        before={"role": before.value},
        after={"role": role.value},
    )
    return member


@transaction.atomic
def remove_member(principal: Principal, username: str, *, revision: int | None = None) -> None:
    """Take a member's place away. Keys that were made stay: they are the tenant's.

    Raises Problem: as ``change_member``.
    """
    tenant, member = _lock(principal, username, revision)
    if member.role == Role.OWNER:
        principal.require_permission(Permission.OWNERS_MANAGE)
        _require_another_owner(tenant)
    member.delete()
    record(principal, tenant, "member.remove", f"members/{username}", before={"role": member.role})


def _lock(principal: Principal, username: str, revision: int | None) -> tuple[Tenant, Member]:
    """Who changes members of one tenant does so in turn."""
    tenant = Tenant.objects.select_for_update().get(pk=principal.tenant_id)
    member = get_member(principal, username)
    require_revision(member, revision, "member")
    return tenant, member


def _require_another_owner(tenant: Tenant) -> None:
    if Member.objects.filter(tenant=tenant, role=Role.OWNER).count() <= 1:
        raise Problem.of("CONFLICT", "this is the last owner; make another member an owner first")
