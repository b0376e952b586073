"""Rows of completed requests, stored for as long as their key is valid."""

from __future__ import annotations

from typing import Final

from django.db import models

from mqservice.accounts.models import Tenant

KEY_CHARS_MAX: Final = 128
ACTOR_CHARS_MAX: Final = 200


class AnsweredRequest(models.Model):
    """One POST under a key, with its answer. It is written in the transaction of what it has done,
    so that there is both or neither.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    actor = models.CharField(max_length=ACTOR_CHARS_MAX)  # who asked; others do not see the answer
    rights = models.BinaryField(max_length=32)  # a digest of what the actor might do then
    key = models.CharField(max_length=KEY_CHARS_MAX)
    fingerprint = models.BinaryField(max_length=32)  # of path, query and body
    status = models.PositiveSmallIntegerField(default=0)
    content_type = models.CharField(max_length=80, blank=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(default=b"")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "actor", "key"], name="answered_request_once"
            ),
        )
        indexes = (models.Index(fields=["created_at"], name="answered_request_at"),)

    def __str__(self) -> str:
        return f"{self.key} of {self.tenant_id}: {self.status}"
