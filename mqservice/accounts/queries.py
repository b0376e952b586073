"""Reads of identity, each limited to the tenant or user of the caller."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Q, QuerySet
from django.utils import timezone

from mqservice.accounts.access import Principal
from mqservice.accounts.limits import INVITATIONS_MAX, NAMESPACES_MAX, PAGE_MAX
from mqservice.accounts.models import ApiKey, Invitation, Member, Namespace, Role, User
from mqservice.accounts.roles import PERMISSIONS, Permission
from mqservice.lib.problem import Problem


def get_namespace(principal: Principal, ns: str) -> Namespace:
    """The namespace a path means. Raises Problem 404 for absent and foreign alike.

    One query; none for a key's own, which was found with the key and would have gone with it. Of
    that one only id, tenant and name are there; the rest is a query when it is read.
    """
    name = principal.namespace_named(ns)
    namespace = None
    if name is not None and name == principal.namespace:
        known = principal.namespace_id, principal.tenant_id, name
        return Namespace.from_db(DEFAULT_DB_ALIAS, ("id", "tenant_id", "name"), known)
    if name is not None:
        namespace = Namespace.objects.filter(tenant_id=principal.tenant_id, name=name).first()
    if namespace is None:
        raise Problem.of("NAMESPACE_NOT_FOUND", f"{ns} does not exist")
    return namespace


def namespaces_of(user: User) -> list[Namespace]:
    """Namespaces of all tenants the user is a member of, by name. One query."""
    mine = Namespace.objects.filter(tenant__members__user=user).select_related("tenant")
    return list(mine.order_by("name")[:NAMESPACES_MAX])


def visible_keys(principal: Principal) -> QuerySet[ApiKey]:
    """All keys of the tenant, or of the namespace that ``principal`` is bound to."""
    rows = ApiKey.objects.filter(tenant_id=principal.tenant_id)
    if principal.namespace_id is not None:
        rows = rows.filter(namespace_id=principal.namespace_id)
    return rows.select_related("tenant", "namespace")


def keys_after(principal: Principal, *, after: str, limit: int = PAGE_MAX) -> list[ApiKey]:
    """Keys by their ids, from the one after ``after`` on. One query."""
    rows = visible_keys(principal).filter(public_id__gt=after).order_by("public_id")
    return list(rows[: min(limit, PAGE_MAX)])


def newest_keys(
    principal: Principal, *, text: str = "", is_good: bool | None = None, before: str, limit: int
) -> list[ApiKey]:
    """Keys that were made before the one ``before``, the newest first. One query, two on a later
    page.

    Args:
        text: what their names or ids contain.
        is_good: only those that let somebody in, or only those that no longer do; None: all.
        before: a key's id; empty, or that of no key: from the newest on.
    """
    rows = visible_keys(principal)
    last = rows.filter(public_id=before).values_list("pk", flat=True).first() if before else None
    if last is not None:
        rows = rows.filter(pk__lt=last)
    if text:
        rows = rows.filter(Q(name__icontains=text) | Q(public_id__startswith=text))
    if is_good is not None:
        over = Q(revoked_at__isnull=False) | Q(expires_at__lte=timezone.now())
        rows = rows.exclude(over) if is_good else rows.filter(over)
    return list(rows.order_by("-pk")[: min(limit, PAGE_MAX + 1)])


def get_key(principal: Principal, public_id: str, *, is_locked: bool = False) -> ApiKey:
    """Raises Problem KEY_NOT_FOUND for absent and foreign alike. One query."""
    rows = visible_keys(principal)
    if is_locked:
        rows = rows.select_for_update(of=("self",))
    row = rows.filter(public_id=public_id).first()
    if row is None:
        raise Problem.of("KEY_NOT_FOUND", f"there is no key {public_id}")
    return row


def visible_namespaces(principal: Principal, *, after: str, limit: int) -> list[Namespace]:
    """Of the tenant by name, or the one that ``principal`` is bound to. One query."""
    rows = Namespace.objects.filter(tenant_id=principal.tenant_id, name__gt=after)
    if principal.namespace_id is not None:
        rows = rows.filter(pk=principal.namespace_id)
    return list(rows.order_by("name")[: min(limit, PAGE_MAX)])


def members_of(principal: Principal) -> QuerySet[Member]:
    return Member.objects.filter(tenant_id=principal.tenant_id).select_related("user")


def grantors(principal: Principal) -> QuerySet[Member]:
    """Those of the tenant who can give a member another role, by user name."""
    roles = [role for role in Role if Permission.MEMBERS_MANAGE in PERMISSIONS[role]]
    return members_of(principal).filter(role__in=roles).order_by("user__username")


def members_after(principal: Principal, *, after: str, limit: int = PAGE_MAX) -> list[Member]:
    """Members by user name, from the one after ``after`` on. One query."""
    rows = members_of(principal).filter(user__username__gt=after).order_by("user__username")
    return list(rows[: min(limit, PAGE_MAX)])


def get_member(principal: Principal, username: str) -> Member:
    """Raises Problem MEMBER_NOT_FOUND for absent and foreign alike. One query."""
    member = members_of(principal).filter(user__username=username).first()
    if member is None:
        raise Problem.of("MEMBER_NOT_FOUND", f"there is no member {username}")
    return member


def open_invitations(rows: QuerySet[Invitation]) -> QuerySet[Invitation]:
    """Those of ``rows`` whose tokens are good now."""
    return rows.filter(accepted_at=None, revoked_at=None, expires_at__gt=timezone.now())


def pending_invitations(principal: Principal) -> list[Invitation]:
    """Those that are open, the newest first; there are ``INVITATIONS_MAX`` at most. One query."""
    rows = open_invitations(Invitation.objects.filter(tenant_id=principal.tenant_id))
    return list(rows.order_by("-pk")[:INVITATIONS_MAX])


def invitations_after(
    principal: Principal, *, after: str, limit: int = PAGE_MAX
) -> list[Invitation]:
    """Invitations by their ids, from the one after ``after`` on. One query."""
    rows = Invitation.objects.filter(tenant_id=principal.tenant_id, public_id__gt=after)
    return list(rows.order_by("public_id")[: min(limit, PAGE_MAX)])


def get_invitation(principal: Principal, public_id: str, *, is_locked: bool = False) -> Invitation:
    """Raises Problem INVITATION_NOT_FOUND for absent and foreign alike. One query."""
    rows = Invitation.objects.filter(tenant_id=principal.tenant_id).select_related("tenant")
    if is_locked:
        rows = rows.select_for_update(of=("self",))
    row = rows.filter(public_id=public_id).first()
    if row is None:
        raise Problem.of("INVITATION_NOT_FOUND", f"there is no invitation {public_id}")
    return row
