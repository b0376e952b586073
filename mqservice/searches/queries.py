"""Reads of shared searches, each within one namespace."""

from __future__ import annotations

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.searches.models import SEARCHES_MAX, SharedSearch


def searches_of(namespace: Namespace) -> list[SharedSearch]:
    """All of a namespace, by name. One query."""
    rows = SharedSearch.objects.filter(namespace=namespace)
    return list(rows.order_by("name")[:SEARCHES_MAX])


def get_search(namespace: Namespace, name: str) -> SharedSearch:
    """Raises Problem SEARCH_NOT_FOUND. One query."""
    row = SharedSearch.objects.filter(namespace=namespace, name=name).first()
    if row is None:
        raise Problem.of("SEARCH_NOT_FOUND", f"{name} does not exist in {namespace.name}")
    return row
