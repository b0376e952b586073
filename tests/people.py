"""The cast of permission tests: Alice owns acme, Bob looks on, Charlie is a stranger with rival.

acme   ── namespace acme ── alice (owner), bob (viewer), a key for each of its uses
rival  ── namespace rival ── charlie (owner), a key
"""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.accounts.models import Namespace, Role, Tenant, User
from mqservice.accounts.roles import permits_scope
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import (
    create_api_key,
    get_or_create_namespace,
    get_or_create_tenant,
    set_role,
)

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
    """A few inserts; passwords are hashed only for those who sign in by ``client.login``."""
    acme_tenant, rival_tenant = get_or_create_tenant("acme"), get_or_create_tenant("rival")
    acme = get_or_create_namespace(acme_tenant, "acme")
    rival = get_or_create_namespace(rival_tenant, "rival")
    return People(
        acme=acme,
        rival=rival,
        alice=_user("alice", acme_tenant, Role.OWNER),
        bob=_user("bob", acme_tenant, Role.VIEWER),
        charlie=_user("charlie", rival_tenant, Role.OWNER),
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


def _role_key(tenant: Tenant, role: Role) -> str:
    """A key for all of the tenant with all that its role allows."""
    scopes = [scope for scope in Scope if permits_scope(role, scope)]
    return create_api_key(tenant, name=role.value, scopes=scopes, role=role)[1]


def _user(name: str, tenant: Tenant, role: Role) -> User:
    user = User.objects.create_user(name, password=PASSWORD)
    set_role(tenant, user, role)
    return user
