"""Rows of masking: rules by name, and the role from which on bodies are shown at all."""

from __future__ import annotations

import enum

from django.db import models

from mqservice.accounts.models import Namespace, Role
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.masking.limits import PATH_CHARS_MAX, PATTERN_CHARS_MAX


class Part(enum.StrEnum):
    """What of a message a rule hides."""

    BODY = "body"
    FIELD = "field"  # of a body that is JSON; by a path
    PROPERTY = "property"


class ClearFor(enum.StrEnum):
    """From which role on what a rule hides is shown; who is below may read messages, or not."""

    ADMIN = "admin"
    OWNER = "owner"


class BodiesFor(enum.StrEnum):
    """From which role on bodies are shown at all."""

    DEVELOPER = "developer"  # everybody who may read messages
    ADMIN = "admin"
    OWNER = "owner"


class MaskRule(models.Model):
    """``topics``: a name, or how names begin and a ``*``. ``path``: of a field, or a property's
    name, which may end in ``*``; empty for a whole body. ``revision`` becomes the ETag.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="mask_rules")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    topics = models.CharField(max_length=PATTERN_CHARS_MAX)
    part = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Part])
    path = models.CharField(max_length=PATH_CHARS_MAX, blank=True, default="")
    clear_for = models.CharField(
        max_length=16,
        choices=[(each.value, each.value) for each in ClearFor],
        default=Role.ADMIN.value,
    )
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="mask_rule_unique"),
        )

    def __str__(self) -> str:
        return f"{self.name} of {self.namespace_id}"


class MaskPolicy(models.Model):
    """One of a namespace at most; without one bodies are shown to all who may read messages."""

    namespace = models.OneToOneField(
        Namespace, on_delete=models.CASCADE, related_name="mask_policy", primary_key=True
    )
    bodies_for = models.CharField(
        max_length=16,
        choices=[(each.value, each.value) for each in BodiesFor],
        default=BodiesFor.DEVELOPER.value,
    )

    def __str__(self) -> str:
        return f"bodies of {self.namespace_id} for {self.bodies_for}"
