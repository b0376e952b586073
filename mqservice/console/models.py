"""Rows of the console: what users have saved for themselves. Nothing else reads them."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.lib.names import NAME_CHARS_MAX

FILTERS_MAX: Final = 50  # of a person in a namespace
FILTER_NAME_CHARS_MAX: Final = 60
FILTER_QUERY_CHARS_MAX: Final = 2_000
TABLE_CHARS_MAX: Final = 32


class SavedFilter(models.Model):
    """A search of the message explorer under a name. ``query`` is that of the page's address."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_filters"
    )
    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    topic = models.CharField(max_length=NAME_CHARS_MAX)
    name = models.CharField(max_length=FILTER_NAME_CHARS_MAX)
    query = models.CharField(max_length=FILTER_QUERY_CHARS_MAX)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["user", "namespace", "topic", "name"], name="saved_filter_unique"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} of {self.topic}"


class ColumnChoice(models.Model):
    """Of one of ``columns.TABLES``: columns that the person sees otherwise than usual, by name."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="column_choices"
    )
    table = models.CharField(max_length=TABLE_CHARS_MAX)
    changed = models.JSONField(default=dict)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "table"], name="column_choice_unique"),
        )

    def __str__(self) -> str:
        return f"columns of {self.table}"
