"""What a signed-in user may do in a namespace: the same ``Principal`` as for a key.

    session ──▶ user ──▶ member of the namespace's tenant ──▶ role ──▶ [session_principal] ──▶ it

So pages and sockets of people pass the same checks as requests with keys, and the audit has their
names.
"""

from __future__ import annotations

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Member, Namespace, Role, User
from mqservice.accounts.roles import permits_scope
from mqservice.accounts.scopes import Scope


def find_session_principal(user: User, namespace: Namespace) -> Principal | None:
    """None for who is no member, or no longer let in. One query."""
    member = Member.objects.filter(user=user, tenant_id=namespace.tenant_id).first()
    if member is None or not user.is_active:
        return None
    return session_principal(member, user, namespace)


def session_principal(member: Member, user: User, namespace: Namespace) -> Principal:
    """Good for all of the tenant; held where ``namespace`` is read-only. Reads its tenant."""
    role = Role(member.role)
    return Principal(
        key_id="",
        user=user.get_username(),
        tenant_id=namespace.tenant_id,
        tenant=namespace.tenant.name,
        namespace_id=None,
        namespace=None,
        scopes=frozenset(scope for scope in Scope if permits_scope(role, scope)),
        role=role,
        is_read_only=namespace.is_read_only,
    )
