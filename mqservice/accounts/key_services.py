"""Creates and changes API keys on request; the only writers of their rows with ``services``.

    make_key ──▶ row + text, which exists nowhere afterwards
    change_key, rotate_key, revoke_key ─ row (locked) ──▶ commit ──▶ NOTIFY: web processes forget it

Nobody makes a key that may do more, in more places or for longer than the own one, and nobody gets
a secret of such a key by changing or rotating it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from mqservice.accounts.access import Principal, pepper_version
from mqservice.accounts.audit import difference, record
from mqservice.accounts.limits import KEYS_MAX, REVOKED_KEYS_MAX
from mqservice.accounts.models import ApiKey, Namespace, Role, Tenant
from mqservice.accounts.queries import get_key, get_namespace
from mqservice.accounts.roles import is_at_most, permits_scope
from mqservice.accounts.scopes import Grant, are_covered, parse_grants
from mqservice.accounts.services import create_api_key, new_key_text
from mqservice.accounts.settings import KeyKind
from mqservice.lib.etags import require_revision
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms, rfc3339
from mqservice.lib.wire import refused

_DELETED_PER_CALL: Final = 2  # more than are made, so that the number comes down


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to be made. ``namespace`` None: that of who asks, or all where that is all."""

    name: str
    grants: tuple[Grant, ...]
    role: Role
    namespace: str | None = None
    expires_at: datetime | None = None
    kind: KeyKind = KeyKind.API


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """What to set; None leaves it as it is. ``is_endless`` takes the end away."""

    name: str | None = None
    grants: tuple[Grant, ...] | None = None
    role: Role | None = None
    expires_at: datetime | None = None
    is_endless: bool = False


@transaction.atomic
def issue_key(principal: Principal, order: NewKey) -> tuple[ApiKey, str]:
    """A new key and its text.

    Raises Problem: NAMESPACE_NOT_FOUND, ILLEGAL_SETTING, FORBIDDEN for a stronger key than the own
    one, QUOTA_EXCEEDED.
    """
    wanted = order.namespace or principal.namespace
    namespace = None if wanted is None else get_namespace(principal, wanted)
    _reject_unfit(order.role, order.grants)
    _reject_stronger(principal, order.role, order.grants, order.expires_at)
    tenant = Tenant.objects.select_for_update().get(pk=principal.tenant_id)
    _require_room(tenant)
    row, text = create_api_key(
        tenant,
        name=order.name,
        scopes=[grant.text for grant in order.grants],
        role=order.role,
        namespace=namespace,
        expires_at=order.expires_at,
        creator=principal.actor,
        kind=order.kind,
    )
    record(principal, _place(row), "key.create", _target(row), after=audited(row))
    return row, text


@transaction.atomic
def change_key(
    principal: Principal, public_id: str, change: KeyChange, *, revision: int | None = None
) -> ApiKey:
    """What the key may do from now on, open sockets included.

    Raises Problem: KEY_NOT_FOUND, PRECONDITION_FAILED, CONFLICT when it is revoked, FORBIDDEN.
    """
    row = _lock(principal, public_id, revision)
    _reject_revoked(row)
    _reject_stronger_row(principal, row)
    before = audited(row)
    if change.name is not None:
        row.name = change.name
    if change.role is not None:
        row.role = change.role.value
    if change.grants is not None:
        row.scopes = [grant.text for grant in change.grants]
    if change.expires_at is not None or change.is_endless:
        row.expires_at = change.expires_at
    _reject_unfit(Role(row.role), parse_grants(row.scopes))
    _reject_stronger_row(principal, row)
    after = audited(row)
    if after != before:
        row.revision += 1
        row.save(update_fields=["name", "role", "scopes", "expires_at", "revision"])
        old, new = difference(before, after)
        record(principal, _place(row), "key.update", _target(row), before=old, after=new)
    return row


@transaction.atomic
def rotate_key(
    principal: Principal, public_id: str, overlap: timedelta, *, revision: int | None = None
) -> tuple[ApiKey, str]:
    """A second secret, and the key's text with it; the present one is good for ``overlap`` more.

    Raises Problem: as ``change_key``, and CONFLICT while two are good, unless ``overlap`` is zero,
    which ends both.
    """
    row = _lock(principal, public_id, revision)
    _reject_revoked(row)
    _reject_stronger_row(principal, row)
    now = timezone.now()
    if overlap and row.previous_until is not None and row.previous_until > now:
        until = rfc3339(datetime_ms(row.previous_until))
        raise Problem.of(
            "CONFLICT",
            f"two secrets of {public_id} are valid until {until}; wait, or rotate "
            "with overlap: 0ms, which revokes both of them",
        )
    key = new_key_text(row.kind, row.public_id)
    row.previous_mac = row.secret_mac if overlap else None
    row.previous_last4 = row.last4 if overlap else ""
    row.previous_until = now + overlap if overlap else None
    row.secret_mac, row.pepper_version, row.last4 = key.mac, pepper_version(), key.last4
    row.revision += 1
    row.save(
        update_fields=[
            "previous_mac", "previous_last4", "previous_until", "secret_mac", "pepper_version",
            "last4", "revision",
        ]
    )  # fmt: skip
    overlap_ms = overlap // timedelta(milliseconds=1)
    record(principal, _place(row), "key.rotate", _target(row), {"overlap_ms": overlap_ms})
    return row, key.text


@transaction.atomic
def revoke_key(principal: Principal, public_id: str, *, revision: int | None = None) -> ApiKey:
    """Revoke a key for good; once more is harmless.

    Raises Problem: KEY_NOT_FOUND, PRECONDITION_FAILED, FORBIDDEN for a key of a higher role.
    """
    row = _lock(principal, public_id, revision)
    if not is_at_most(Role(row.role), principal.role):
        raise _stronger(f"has the role {row.role}")
    if row.revoked_at is None:
        row.revoked_at = timezone.now()
        row.revision += 1
        row.save(update_fields=["revoked_at", "revision"])
        record(principal, _place(row), "key.revoke", _target(row), before=audited(row))
    return row


def audited(row: ApiKey) -> dict[str, object]:
    """What the audit keeps of a key."""
    return {
        "name": row.name,
        "role": row.role,
        "scopes": list(row.scopes),
        "expires_at": None if row.expires_at is None else rfc3339(datetime_ms(row.expires_at)),
    }


def _lock(principal: Principal, public_id: str, revision: int | None) -> ApiKey:
    row = get_key(principal, public_id, is_locked=True)
    require_revision(row, revision, "key")
    return row


def _place(row: ApiKey) -> Namespace | Tenant:
    return row.tenant if row.namespace is None else row.namespace


def _target(row: ApiKey) -> str:
    return f"keys/{row.public_id}"


def _require_room(tenant: Tenant) -> None:
    """Refuse one key too many; forget the oldest of too many that are revoked."""
    keys = ApiKey.objects.filter(tenant=tenant)
    if keys.filter(revoked_at=None).count() >= KEYS_MAX:
        raise Problem.of(
            "QUOTA_EXCEEDED", f"a tenant has at most {KEYS_MAX} keys; revoke one first"
        )
    revoked = keys.exclude(revoked_at=None).order_by("-revoked_at", "-id")
    old = revoked.values_list("id", flat=True)[
        REVOKED_KEYS_MAX : REVOKED_KEYS_MAX + _DELETED_PER_CALL
    ]
    ApiKey.objects.filter(pk__in=list(old)).delete()


def _reject_unfit(role: Role, grants: tuple[Grant, ...]) -> None:
    for grant in grants:
        if not permits_scope(role, grant.scope):
            detail = (
                f"the role {role.value} does not permit {grant.scope.value}, found {grant.text}"
            )
            raise refused("/scopes", detail, "ILLEGAL_SETTING")


def _reject_revoked(row: ApiKey) -> None:
    if row.revoked_at is not None:
        raise Problem.of("CONFLICT", f"the key {row.public_id} was revoked; create another one")


def _reject_stronger_row(principal: Principal, row: ApiKey) -> None:
    _reject_stronger(principal, Role(row.role), parse_grants(row.scopes), row.expires_at)


def _reject_stronger(
    principal: Principal, role: Role, grants: tuple[Grant, ...], expires_at: datetime | None
) -> None:
    """Raises Problem FORBIDDEN where such a key could do more than ``principal``."""
    if not is_at_most(role, principal.role):
        raise _stronger(f"has the role {role.value}")
    if not are_covered(grants, principal.all_grants):
        raise _stronger(f"has the scopes {', '.join(grant.text for grant in grants)}")
    ends_ms = principal.expires_at_ms
    if ends_ms is not None and (expires_at is None or datetime_ms(expires_at) > ends_ms):
        raise _stronger(f"is valid for longer than until {rfc3339(ends_ms)}")


def _stronger(how: str) -> Problem:
    return Problem.of("FORBIDDEN", f"a key that {how} could do more than yours")
