"""The cast of permission tests: Alice owns acme, Bob looks on, Charlie is a stranger with rival.

acme   ── namespace acme ── alice (owner), bob (viewer), a key for each of its uses
rival  ── namespace rival ── charlie (owner), a key
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.hashers import make_password

from mqservice.accounts.access import find_principal
from mqservice.accounts.key_services import revoke_key
from mqservice.accounts.models import Member, Namespace, Role, Tenant, User
from mqservice.accounts.roles import permits_scope
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key

PASSWORD = "correct horse battery"


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Texts of API keys beside the rows. ``acme_key`` may do everything in namespace acme that a
    developer may; the keys of roles are good for all of their tenant.
    """

    acme: Namespace
    rival: Namespace
    alice: User
    bob: User
    charlie: User
    acme_key: str
    acme_reader_key: str
    acme_viewer_key: str
    acme_admin_key: str
    acme_owner_key: str
    rival_key: str
    rival_owner_key: str


def create_people() -> People:
    """As few statements as can be: a thousand tests begin with them."""
    tenants = Tenant.objects.bulk_create(Tenant(name=name) for name in ("acme", "rival"))
    acme, rival = Namespace.objects.bulk_create(
        Namespace(tenant=tenant, name=tenant.name) for tenant in tenants
    )
    acme_tenant, rival_tenant = tenants
    password = make_password(PASSWORD)
    alice, bob, charlie = User.objects.bulk_create(
        User(username=name, password=password) for name in ("alice", "bob", "charlie")
    )
    Member.objects.bulk_create(
        [
            Member(tenant=acme_tenant, user=alice, role=Role.OWNER),
            Member(tenant=acme_tenant, user=bob, role=Role.VIEWER),
            Member(tenant=rival_tenant, user=charlie, role=Role.OWNER),
        ]
    )
    return People(
        acme=acme,
        rival=rival,
        alice=alice,
        bob=bob,
        charlie=charlie,
        acme_key=create_api_key(acme_tenant, name="all", scopes=Scope, namespace=acme)[1],
        acme_reader_key=create_api_key(
            acme_tenant, name="reader", scopes=[Scope.CONSUME], namespace=acme
        )[1],
        acme_viewer_key=_role_key(acme_tenant, Role.VIEWER),
        acme_admin_key=_role_key(acme_tenant, Role.ADMIN),
        acme_owner_key=_role_key(acme_tenant, Role.OWNER),
        rival_owner_key=_role_key(rival_tenant, Role.OWNER),
        rival_key=create_api_key(rival_tenant, name="all", scopes=Scope, namespace=rival)[1],
    )


def bearer(key: str) -> bytes:
    """The Authorization header of a key, as the data plane sees it."""
    return b"Bearer " + key.encode()


def revoke(key: str) -> None:
    """The key revokes itself."""
    principal = find_principal(bearer(key))
    assert principal is not None
    revoke_key(principal, principal.key_id)


def _role_key(tenant: Tenant, role: Role) -> str:
    """A key for all of the tenant with all that its role allows."""
    scopes = [scope for scope in Scope if permits_scope(role, scope)]
    return create_api_key(tenant, name=role.value, scopes=scopes, role=role)[1]
