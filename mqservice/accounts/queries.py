"""Reads of identity, each bounded by the tenant or the user who asks."""

from __future__ import annotations

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace, User
from mqservice.lib.problem import Problem

NAMESPACES_MAX = 1_000


def get_namespace(principal: Principal, ns: str) -> Namespace:
    """The namespace a path means. Raises Problem 404 for absent and foreign alike. One query."""
    name = principal.namespace_named(ns)
    namespace = None
    if name is not None:
        namespace = Namespace.objects.filter(tenant_id=principal.tenant_id, name=name).first()
    if namespace is None:
        raise Problem.of("NAMESPACE_NOT_FOUND", f"{ns} does not exist")
    return namespace


def namespaces_of(user: User) -> list[Namespace]:
    """Namespaces of all tenants the user is a member of, by name. One query."""
    mine = Namespace.objects.filter(tenant__members__user=user).select_related("tenant")
    return list(mine.order_by("name")[:NAMESPACES_MAX])
