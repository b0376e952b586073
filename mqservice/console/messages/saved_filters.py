"""Searches that a user saved for a topic; other users do not see them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.db import transaction
from django.utils.translation import gettext as _

from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace, User
from mqservice.console.models import (
    FILTER_NAME_CHARS_MAX,
    FILTER_QUERY_CHARS_MAX,
    FILTERS_MAX,
    SavedFilter,
)


class NotSaved(Exception):
    """Why a filter was not kept, in the reader's language."""


def filters_of(user: User, namespace: Namespace, topic: str) -> list[SavedFilter]:
    """By name. One query."""
    rows = SavedFilter.objects.filter(user=user, namespace=namespace, topic=topic)
    return list(rows.order_by("name")[:FILTERS_MAX])


@transaction.atomic
def save_filter(
    user: User, namespace: Namespace, topic: str, name: str, fields: Mapping[str, str]
) -> SavedFilter:
    """Keep a search, in place of that of the same name. Raises ``NotSaved``."""
    name = " ".join(name.split())
    if not name or len(name) > FILTER_NAME_CHARS_MAX or not name.isprintable():
        raise NotSaved(
            _("A filter needs a name of at most %(n)s characters.") % {"n": FILTER_NAME_CHARS_MAX}
        )
    query = urlencode({field: value for field, value in fields.items() if value})
    if not query:
        raise NotSaved(_("Nothing to save: the search has no conditions."))
    if len(query) > FILTER_QUERY_CHARS_MAX:
        raise NotSaved(_("This search is too long to save."))
    lock_namespace(namespace)  # two at once may not be one too many
    mine = SavedFilter.objects.filter(user=user, namespace=namespace)
    if mine.count() >= FILTERS_MAX:  # no page shows those of a topic that is gone
        mine.exclude(topic__in=namespace.topics.values("name")).delete()
    if not mine.filter(topic=topic, name=name).exists() and mine.count() >= FILTERS_MAX:
        raise NotSaved(
            _("You already have %(n)s filters in this namespace. Delete one first.")
            % {"n": FILTERS_MAX}
        )
    saved, _is_new = SavedFilter.objects.update_or_create(
        user=user, namespace=namespace, topic=topic, name=name, defaults={"query": query}
    )
    return saved


def delete_filter(user: User, namespace: Namespace, pk: int) -> bool:
    """Whether it was there and the person's own."""
    return bool(SavedFilter.objects.filter(user=user, namespace=namespace, pk=pk).delete()[0])
