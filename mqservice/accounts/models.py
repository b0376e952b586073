"""Rows of identity: users, tenants, namespaces, members, API keys.

    User ── Member(role) ──▶ Tenant ──▶ Namespace ◀── topics, groups
                                ├─────▶ ApiKey (bound to one namespace, or to all of the tenant)
                                └─────▶ AuditEntry

A namespace's name is unique in the whole service, because it is the prefix of the engine's names.
"""

from __future__ import annotations

import enum

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models

from mqservice.lib.names import NAME_CHARS_MAX


class User(AbstractUser):
    """A person who signs in to the console."""


class Tenant(models.Model):
    """A customer: the border no look-up crosses."""

    name = models.CharField(max_length=NAME_CHARS_MAX, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Namespace(models.Model):
    """A set of topics and groups of one tenant, such as an environment."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="namespaces")
    name = models.CharField(max_length=NAME_CHARS_MAX, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Role(enum.StrEnum):
    """What a member may do, from most to least."""

    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    VIEWER = "viewer"


class Member(models.Model):
    """A user's place in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
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

    ``last_used_at`` is coarse, so that a busy key does not cost a write a request.
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
    scopes = ArrayField(models.CharField(max_length=16), size=8)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = (models.Index(fields=["tenant", "created_at"], name="apikey_tenant_created"),)

    def __str__(self) -> str:
        return f"{self.public_id} ({self.name})"


class AuditEntry(models.Model):
    """Who did what to which thing; the database lets nobody change or delete a row.

    Names are texts, so that an entry outlives what it tells of.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="audit_entries")
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=80)  # such as ``key:`` and its public id
    action = models.CharField(max_length=40)  # noun.verb
    namespace = models.CharField(max_length=NAME_CHARS_MAX)
    target = models.CharField(max_length=200)  # such as ``groups/billing``
    outcome = models.CharField(max_length=16)  # done, or unknown when nobody could tell
    details = models.JSONField()
    request_id = models.CharField(max_length=80)

    class Meta:
        indexes = (models.Index(fields=["tenant", "at"], name="audit_tenant_at"),)

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"
