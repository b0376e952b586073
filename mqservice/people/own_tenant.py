"""Creates a user's first tenant: its name, a namespace of the same name, the user as its owner."""

from __future__ import annotations

from django.conf import settings

from mqservice.accounts.models import Member, Tenant, User
from mqservice.accounts.tenant_creation import create_tenant
from mqservice.lib.problem import Problem


def may_create_tenant(user: User) -> bool:
    """Who belongs to no tenant yet, where anybody may sign up. One query."""
    return settings.MQ_SIGN_UP == "open" and not Member.objects.filter(user=user).exists()


def create_own_tenant(user: User, name: str) -> Tenant:
    """Raises Problem: FORBIDDEN, ILLEGAL_NAMESPACE, or CONFLICT for a name that is taken."""
    if not may_create_tenant(user):
        raise Problem.of("FORBIDDEN", "you may not create a tenant here")
    return create_tenant(user, name, actor=f"user:{user.username}")
