"""Serializes changes to a namespace until the end of the transaction.

put, delete of topics, groups ──▶ [lock_namespace] ── row lock of the namespace, and of its tenant

Both locks in one statement, the namespace's first. They let rows that refer to a namespace be
written meanwhile, and nobody delete it.
"""

from __future__ import annotations

from typing import Final

from django.db import connection

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem

_LOCK: Final = "SELECT id FROM accounts_namespace WHERE id = %s FOR NO KEY UPDATE"
_LOCK_WITH_TENANT: Final = (
    "SELECT namespace.id FROM accounts_namespace AS namespace"
    " JOIN accounts_tenant AS tenant ON tenant.id = namespace.tenant_id WHERE namespace.id = %s"
    " FOR NO KEY UPDATE OF namespace FOR NO KEY UPDATE OF tenant"
)


def lock_namespace(namespace: Namespace, *, with_tenant: bool = False) -> None:
    """One statement; must be in a transaction.

    Args:
        with_tenant: nobody does so in another namespace of the tenant either: what all of them
            have is to be counted.

    Raises Problem NAMESPACE_NOT_FOUND: it was deleted meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_WITH_TENANT if with_tenant else _LOCK, [namespace.pk])
        if cursor.fetchone() is None:
            raise Problem.of("NAMESPACE_NOT_FOUND", f"{namespace.name} does not exist")
