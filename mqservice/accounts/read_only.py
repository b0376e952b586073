"""Namespaces in read-only mode: nobody can change them, in the console or with a key.

    admin ── PATCH /v1/namespaces/{name}, console ──▶ [set_read_only] ──▶ row, audit
    request of the control plane that changes something ──▶ [reject_change] ──▶ 409
    person ──▶ session_access.session_principal ─▶ a Principal that only looks

Programs go on to produce, receive, settle and commit offsets; what is the tenant's and not the
namespace's, such as keys and members, can be changed; tasks that run go on. It keeps slips of the
hand away, not an admin, who can end it.
"""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.utils import timezone

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import REASON_CHARS_MAX, Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms, rfc3339
from mqservice.lib.wire import refused

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Of consumers, which go on: their positions are no settings.
_OF_CONSUMERS: Final = "/offsets:commit"


@transaction.atomic
def set_read_only(
    principal: Principal, name: str, *, is_read_only: bool, reason: str = ""
) -> Namespace:
    """Nothing of the namespace is changed from now on, or again; the same again changes the reason.

    Raises Problem: NAMESPACE_NOT_FOUND, or BAD_REQUEST for a reason that is too long.
    """
    if len(reason) > REASON_CHARS_MAX or not reason.isprintable():
        raise refused("/reason", f"must be one line of at most {REASON_CHARS_MAX} characters")
    found = get_namespace(principal, name)
    namespace = Namespace.objects.select_for_update().get(pk=found.pk)
    before = _settings_of(namespace)
    if is_read_only:
        namespace.read_only_since = namespace.read_only_since or timezone.now()
        namespace.read_only_by, namespace.read_only_reason = principal.actor, reason
    else:
        namespace.read_only_since, namespace.read_only_by = None, ""
        namespace.read_only_reason = ""
    after = _settings_of(namespace)
    if before != after:
        namespace.save(update_fields=["read_only_since", "read_only_by", "read_only_reason"])
        record(
            principal,
            namespace,
            "namespace.read_only",
            f"namespaces/{namespace.name}",
            before=before,
            after=after,
        )
    return namespace


def reject_change(principal: Principal, method: str, path: str, ns: str) -> None:
    """Raises Problem NAMESPACE_READ_ONLY. One query; none for a request that changes nothing.

    Args:
        ns: the namespace as the path has it.
    """
    name = principal.namespace_named(ns)
    if name is None or method in _SAFE_METHODS or path.endswith(_OF_CONSUMERS):
        return
    own = Namespace.objects.filter(tenant_id=principal.tenant_id, name=name)
    found = own.exclude(read_only_since=None).first()
    if found is None or found.read_only_since is None:
        return
    since = rfc3339(datetime_ms(found.read_only_since))
    why = f" ({found.read_only_reason})" if found.read_only_reason else ""
    raise Problem.of(
        "NAMESPACE_READ_ONLY",
        f"{name} is read-only since {since}{why}; nothing in it can be changed",
    )


def _settings_of(namespace: Namespace) -> dict[str, object]:
    return {"read_only": namespace.is_read_only, "reason": namespace.read_only_reason}
