"""Rows of identity: users, tenants, namespaces, members, API keys.

    User ── Member(role) ──▶ Tenant ──▶ Namespace ◀── topics, groups
                                ├─────▶ ApiKey (bound to one namespace, or to all of the tenant)
                                ├─────▶ Invitation (becomes a Member)
                                └─────▶ AuditEntry

A namespace's name is unique in the whole service, because it is the prefix of the engine's names.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models

from mqservice.accounts.scopes import SCOPE_CHARS_MAX, SCOPES_MAX
from mqservice.accounts.settings import KeyKind
from mqservice.accounts.settings import Role as Role
from mqservice.lib.access_keys import is_access_key_id
from mqservice.lib.api_keys import PREFIX
from mqservice.lib.names import MAIN_SHARD, NAME_CHARS_MAX

USER_AGENT_CHARS_MAX: Final = 200
REASON_CHARS_MAX: Final = 200  # why a namespace is read-only


class User(AbstractUser):
    """A person who signs in to the console."""


class Tenant(models.Model):
    """A customer: the border no look-up crosses."""

    name = models.CharField(max_length=NAME_CHARS_MAX, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Namespace(models.Model):
    """A set of topics and groups of one tenant, such as an environment. Since ``read_only_since``
    nobody changes it through the console or the control plane; see ``read_only.py``.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="namespaces")
    name = models.CharField(max_length=NAME_CHARS_MAX, unique=True)
    # Where its messages are. No foreign key, because the main shard needs no row.
    shard = models.CharField(max_length=NAME_CHARS_MAX, default=MAIN_SHARD, db_default=MAIN_SHARD)
    # The shard that it is just going to, while requests for it wait.
    moving_to = models.CharField(max_length=NAME_CHARS_MAX, default="", db_default="", blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    read_only_since = models.DateTimeField(null=True, blank=True)
    read_only_by = models.CharField(max_length=200, default="", db_default="", blank=True)
    read_only_reason = models.CharField(
        max_length=REASON_CHARS_MAX, default="", db_default="", blank=True
    )

    @property
    def is_read_only(self) -> bool:
        return self.read_only_since is not None

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    """A user's place in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "user"], name="member_tenant_user_unique"),
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]), name="member_role_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of {self.tenant_id}"


class ApiKey(models.Model):
    """A machine's credential. The secret itself is nowhere: only its MAC and last four characters.
    Of an access key, whose id has a form of its own, the MAC is the random seed that its secret is
    derived from, which takes a secret of the service too.

    The ``previous`` secret is as good as the present one until ``previous_until``, so that who uses
    it can change over. ``scopes`` are texts of ``scopes.py``. ``last_used_at`` is coarse, so that a
    busy key does not cost a write a request.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    namespace = models.ForeignKey(
        Namespace, on_delete=models.CASCADE, related_name="api_keys", null=True, blank=True
    )
    name = models.CharField(max_length=80)
    public_id = models.CharField(max_length=16, unique=True)
    secret_mac = models.BinaryField(max_length=32)
    pepper_version = models.PositiveSmallIntegerField()
    last4 = models.CharField(max_length=4)
    previous_mac = models.BinaryField(max_length=32, null=True, blank=True)
    previous_last4 = models.CharField(max_length=4, default="", blank=True)
    previous_until = models.DateTimeField(null=True, blank=True)
    role = models.CharField(
        max_length=16,
        choices=[(role.value, role.value) for role in Role],
        default=Role.DEVELOPER.value,
    )
    scopes = ArrayField(models.CharField(max_length=SCOPE_CHARS_MAX), size=SCOPES_MAX)
    revision = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    creator = models.CharField(max_length=200, default="", blank=True)  # as the audit's actor
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = (models.Index(fields=["tenant", "created_at"], name="apikey_tenant_created"),)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]), name="apikey_role_known"
            ),
        )

    @property
    def kind(self) -> KeyKind:
        return KeyKind.ACCESS if is_access_key_id(self.public_id) else KeyKind.API

    @property
    def beginning(self) -> str:
        """As much of what a program has as anybody may see."""
        return self.public_id if self.kind is KeyKind.ACCESS else PREFIX + self.public_id

    def __str__(self) -> str:
        return f"{self.public_id} ({self.name})"


class Invitation(models.Model):
    """A place in a tenant for whoever brings the token, of which only a MAC is kept.

    It is good once, until ``expires_at``, unless it is withdrawn (``revoked_at``) before.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    public_id = models.CharField(max_length=32, unique=True)
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    token_mac = models.BinaryField(max_length=32)
    attempt_count = models.PositiveSmallIntegerField(default=0)  # with the right token, in vain
    inviter = models.CharField(max_length=200)  # as the audit's actor
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = (models.Index(fields=["tenant", "public_id"], name="invitation_tenant_id"),)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]),
                name="invitation_role_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.public_id} to be {self.role}"


class AuditEntry(models.Model):
    """Who did what to which thing; the database lets nobody change or delete a row.

    Names are texts, so that an entry outlives what it tells of. ``before`` and ``after`` are the
    settings that became different, null where there were or are none. ``namespace`` is empty for
    what concerns all of the tenant, and ``tenant`` null for what concerns the whole installation.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, null=True, related_name="audit_entries"
    )
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=200)  # such as ``key:`` and its public id
    address = models.CharField(max_length=45, default="")  # of who asked; empty for the service
    # What the program that asked called itself, cut off where it says too much.
    user_agent = models.CharField(max_length=USER_AGENT_CHARS_MAX, default="", db_default="")
    action = models.CharField(max_length=40)  # noun.verb
    namespace = models.CharField(max_length=NAME_CHARS_MAX)
    target = models.CharField(max_length=200)  # such as ``groups/billing``
    outcome = models.CharField(max_length=16)  # done, or unknown when nobody could tell
    details = models.JSONField()
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    request_id = models.CharField(max_length=80)

    class Meta:
        indexes = (
            models.Index(fields=["tenant", "at"], name="audit_tenant_at"),
            models.Index(fields=["tenant", "id"], name="audit_tenant_id"),
        )

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"
