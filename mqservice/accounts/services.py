"""Changes identity; the only writers of its rows. One transaction each."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.conf import settings

from mqservice.accounts.access import pepper_version, secret_mac
from mqservice.accounts.models import ApiKey, Member, Namespace, Role, Tenant, User
from mqservice.accounts.scopes import parse_grants
from mqservice.accounts.settings import KeyKind
from mqservice.lib.access_keys import access_key_secret, generate_access_key_id, generate_seed
from mqservice.lib.api_keys import generate_api_key, parse_api_key
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem


def get_or_create_tenant(name: str) -> Tenant:
    """Raises Problem ILLEGAL_NAMESPACE when the name is none."""
    refuse_bad_name(name)
    tenant, _ = Tenant.objects.get_or_create(name=name)
    return tenant


def get_or_create_namespace(tenant: Tenant, name: str) -> Namespace:
    """Raises Problem ILLEGAL_NAMESPACE, or CONFLICT when another tenant has the name."""
    refuse_bad_name(name)
    namespace, _ = Namespace.objects.get_or_create(name=name, defaults={"tenant": tenant})
    if namespace.tenant_id != tenant.pk:
        raise Problem.of("CONFLICT", f"the namespace name {name} is already in use")
    return namespace


def set_role(tenant: Tenant, user: User, role: Role) -> Member:
    """Make ``user`` a member, or change what the member may do."""
    member, _ = Member.objects.update_or_create(tenant=tenant, user=user, defaults={"role": role})
    return member


class KeyText(NamedTuple):
    """What the holder of a key is shown once, and what the key's row keeps of it."""

    public_id: str
    text: str  # the API key, or the secret of an access key
    mac: bytes
    last4: str


def new_key_text(kind: KeyKind, public_id: str | None = None) -> KeyText:
    """A new key, or a new secret for ``public_id``."""
    if kind is KeyKind.API:
        return api_key_text(generate_api_key(public_id))
    public_id = public_id or generate_access_key_id(settings.MQ_KEY_PEPPER)
    seed = generate_seed(settings.MQ_KEY_PEPPER)
    secret = access_key_secret([settings.MQ_KEY_PEPPER], public_id, seed)
    assert secret is not None, "made under this very pepper"
    return KeyText(public_id, secret, seed, secret[-4:])


def api_key_text(text: str) -> KeyText:
    """Of an API key that is known. Raises ValueError."""
    key = parse_api_key(text)
    if key is None:
        raise ValueError("the API key must have the form mqk_...")
    return KeyText(key.public_id, text, secret_mac(key), key.last4)


def create_api_key(
    tenant: Tenant,
    *,
    name: str,
    scopes: Iterable[str],
    role: Role = Role.DEVELOPER,
    namespace: Namespace | None = None,
    expires_at: datetime | None = None,
    created_by: User | None = None,
    creator: str = "",
    text: str | None = None,
    kind: KeyKind = KeyKind.API,
) -> tuple[ApiKey, str]:
    """A new key and its text, which exists nowhere afterwards.

    Args:
        scopes: texts of ``scopes.py``; what ``role`` does not allow has no effect.
        creator: as the audit names who asked for it.
        text: the key to take instead of a random one; must be of ``generate_api_key``'s form.
    """
    assert namespace is None or namespace.tenant_id == tenant.pk, (
        "the namespace belongs to another tenant"
    )
    key = new_key_text(kind) if text is None else api_key_text(text)
    row = ApiKey.objects.create(
        tenant=tenant,
        namespace=namespace,
        name=name,
        public_id=key.public_id,
        secret_mac=key.mac,
        pepper_version=pepper_version(),
        last4=key.last4,
        scopes=[grant.text for grant in parse_grants(scopes)],
        role=role.value,
        expires_at=expires_at,
        created_by=created_by,
        creator=creator,
    )
    return row, key.text


def refuse_bad_name(name: str) -> None:
    """Raises Problem ILLEGAL_NAMESPACE."""
    fault = name_fault(name)
    if fault is not None:
        raise Problem.of("ILLEGAL_NAMESPACE", fault)
