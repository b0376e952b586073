"""What each role may do: the one table, for keys and users alike.

    viewer ⊂ developer ⊂ admin ⊂ owner

A key has a role and scopes and may do what both allow: the role says what kind of thing, the scopes
say to which topics and groups. Who manages keys, people or namespaces does so for all topics and
groups, so a key needs the scope ``manage`` without a pattern for it.
"""

from __future__ import annotations

import enum
from typing import Final

from mqservice.accounts.models import Role
from mqservice.accounts.scopes import Scope


class Permission(enum.StrEnum):
    """One kind of thing that somebody may do."""

    SETTINGS_READ = "settings.read"  # names and settings of topics, groups, tasks, alerts; lag
    NAMESPACES_READ = "namespaces.read"
    MEMBERS_READ = "members.read"
    PRODUCE = "messages.produce"
    CONSUME = "messages.consume"
    SETTINGS_MANAGE = "settings.manage"
    KEYS_READ = "keys.read"
    KEYS_MANAGE = "keys.manage"
    NAMESPACES_MANAGE = "namespaces.manage"
    MEMBERS_MANAGE = "members.manage"
    AUDIT_READ = "audit.read"
    QUOTAS_MANAGE = "quotas.manage"
    CONNECTIONS_MANAGE = "connections.manage"  # end somebody's socket
    MASKING_MANAGE = "masking.manage"  # what the console hides of messages
    OWNERS_MANAGE = "owners.manage"  # make somebody an owner, or no longer one


_VIEWER: Final = frozenset({
    Permission.SETTINGS_READ, Permission.NAMESPACES_READ, Permission.MEMBERS_READ,
})  # fmt: skip
_DEVELOPER: Final = _VIEWER | {
    Permission.PRODUCE, Permission.CONSUME, Permission.SETTINGS_MANAGE,
}  # fmt: skip
_ADMIN: Final = _DEVELOPER | {
    Permission.KEYS_READ, Permission.KEYS_MANAGE, Permission.NAMESPACES_MANAGE,
    Permission.MEMBERS_MANAGE, Permission.AUDIT_READ, Permission.QUOTAS_MANAGE,
    Permission.CONNECTIONS_MANAGE, Permission.MASKING_MANAGE,
}  # fmt: skip

PERMISSIONS: Final[dict[Role, frozenset[Permission]]] = {
    Role.VIEWER: _VIEWER,
    Role.DEVELOPER: _DEVELOPER,
    Role.ADMIN: _ADMIN,
    Role.OWNER: frozenset(Permission),
}
OF_SCOPE: Final[dict[Scope, Permission]] = {
    Scope.PRODUCE: Permission.PRODUCE,
    Scope.CONSUME: Permission.CONSUME,
    Scope.MANAGE: Permission.SETTINGS_MANAGE,
}
# A key needs the whole scope ``manage`` for these.
ACCOUNT_WIDE: Final = _ADMIN - _DEVELOPER | {Permission.OWNERS_MANAGE}
# Not for a key that is bound to a namespace.
TENANT_WIDE: Final = frozenset({
    Permission.NAMESPACES_MANAGE, Permission.MEMBERS_READ, Permission.MEMBERS_MANAGE,
    Permission.OWNERS_MANAGE, Permission.QUOTAS_MANAGE,
})  # fmt: skip
# What nobody does in a read-only namespace; programs go on to produce and to consume.
CHANGING: Final = frozenset({
    Permission.PRODUCE, Permission.SETTINGS_MANAGE, Permission.CONNECTIONS_MANAGE,
    Permission.MASKING_MANAGE,
})  # fmt: skip


def permits_scope(role: Role, scope: Scope) -> bool:
    return OF_SCOPE[scope] in PERMISSIONS[role]


def least_role(permission: Permission) -> Role:
    """The first role, from viewer up, that has ``permission``."""
    return next(role for role, permitted in PERMISSIONS.items() if permission in permitted)


def is_at_most(role: Role, other: Role) -> bool:
    """Whether ``role`` may do nothing that ``other`` may not."""
    return PERMISSIONS[role] <= PERMISSIONS[other]
