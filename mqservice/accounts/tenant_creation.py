"""Creates a tenant: the tenant itself, a first namespace of the same name, and an owner.
Audited.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction

from mqservice.accounts.audit import record
from mqservice.accounts.models import Member, Namespace, Role, Tenant, User
from mqservice.accounts.services import refuse_bad_name
from mqservice.lib.problem import Problem
from mqservice.shards.queries import shard_of_new_namespace


@transaction.atomic
def create_tenant(user: User, name: str, *, actor: str | None) -> Tenant:
    """Whoever asks at the same time: one tenant a name, one founding a user.

    Args:
        actor: as the audit names who did it; None: the service.

    Raises Problem: ILLEGAL_NAMESPACE, or CONFLICT for a name that is taken, as a tenant's or a
    namespace's, and for a user who belongs to a tenant.
    """
    refuse_bad_name(name)
    User.objects.select_for_update().get(pk=user.pk)
    if Member.objects.filter(user=user).exists():
        raise Problem.of("CONFLICT", f"{user.username} already belongs to a tenant")
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(name=name)
            namespace = Namespace.objects.create(
                tenant=tenant, name=name, shard=shard_of_new_namespace()
            )
    except IntegrityError:
        raise Problem.of("CONFLICT", f"the name {name} is already in use") from None
    Member.objects.create(tenant=tenant, user=user, role=Role.OWNER.value)
    owner = {"owner": user.username}
    record(actor, tenant, "tenant.create", f"tenants/{name}", after={"name": name, **owner})
    record(actor, namespace, "namespace.create", f"namespaces/{name}", after={"name": name})
    return tenant
