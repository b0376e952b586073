"""Rows of shared searches."""

from __future__ import annotations

from typing import Final

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.lib.names import NAME_CHARS_MAX

SEARCHES_MAX: Final = 100  # of a namespace
Q_CHARS_MAX: Final = 2_000


class SharedSearch(models.Model):
    """``q``: what the message explorer and ``GET …/messages`` take. ``revision`` becomes the
    ETag.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="searches")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    q = models.CharField(max_length=Q_CHARS_MAX)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="shared_search_unique"),
        )

    def __str__(self) -> str:
        return f"{self.name} of {self.namespace_id}"
