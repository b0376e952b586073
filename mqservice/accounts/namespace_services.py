"""Creates, changes and deletes namespaces. One transaction each, audited.

A namespace's name is the prefix of the engine's names and hence one in the whole service: that
somebody has a name shows when it is asked for, as with user names, and in nothing else.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.limits import NAMESPACES_MAX
from mqservice.accounts.models import Namespace, Tenant
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.services import refuse_bad_name
from mqservice.lib.problem import Problem
from mqservice.shards.queries import shard_of_new_namespace


@transaction.atomic
def put_namespace(principal: Principal, name: str) -> tuple[Namespace, bool]:
    """Create a namespace; the second value says whether it is new.

    Raises Problem: ILLEGAL_NAMESPACE, QUOTA_EXCEEDED, or CONFLICT when another tenant has the name.
    """
    refuse_bad_name(name)
    tenant = Tenant.objects.select_for_update().get(pk=principal.tenant_id)  # creators in turn
    own = Namespace.objects.filter(tenant=tenant)
    namespace = own.filter(name=name).first()
    if namespace is not None:
        return namespace, False
    if own.count() >= NAMESPACES_MAX:
        raise Problem.of(
            "QUOTA_EXCEEDED", f"a tenant has at most {NAMESPACES_MAX} namespaces; delete one first"
        )
    try:
        with transaction.atomic():
            namespace = Namespace.objects.create(
                tenant=tenant, name=name, shard=shard_of_new_namespace()
            )
    except IntegrityError:
        raise Problem.of("CONFLICT", f"the namespace name {name} is already in use") from None
    record(principal, namespace, "namespace.create", f"namespaces/{name}", after={"name": name})
    return namespace, True


@transaction.atomic
def delete_namespace(principal: Principal, name: str) -> None:
    """Delete an empty namespace, with its alerts, schedules and the keys that are bound to it.

    Raises Problem: NAMESPACE_NOT_FOUND, NAMESPACE_READ_ONLY, or CONFLICT while there are
    topics, groups or tasks.
    """
    namespace = get_namespace(principal, name)
    tenant = Tenant.objects.get(pk=principal.tenant_id)
    if namespace.is_read_only:
        raise Problem.of(
            "NAMESPACE_READ_ONLY", f"{namespace.name} is read-only: make it writable first"
        )
    name, key_count = namespace.name, namespace.api_keys.filter(revoked_at=None).count()
    try:
        with transaction.atomic():
            namespace.delete()
    except ProtectedError as exc:
        kinds = {str(type(each)._meta.verbose_name_plural) for each in exc.protected_objects}
        detail = f"{name} is not empty: it has {', '.join(sorted(kinds))}"
        raise Problem.of("CONFLICT", detail) from None
    record(
        principal,
        tenant,
        "namespace.delete",
        f"namespaces/{name}",
        {"keys": key_count},
        before={"name": name},
    )
