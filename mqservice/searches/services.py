"""Changes shared searches; the only writer of their rows. One transaction each, and audited."""

from __future__ import annotations

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, record, settings_of
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import Namespace
from mqservice.delivery.decoding import Fault
from mqservice.delivery.reading.message_query import parse_query
from mqservice.lib.etags import require_revision
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.wire import refused
from mqservice.searches.models import Q_CHARS_MAX, SEARCHES_MAX, SharedSearch
from mqservice.searches.queries import get_search

_SETTINGS = ("q",)


@transaction.atomic
def put_search(
    principal: Principal, namespace: Namespace, name: str, q: str, *, revision: int | None = None
) -> tuple[SharedSearch, bool]:
    """Create a search or replace one; the row, and whether it is new.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the search exists in this revision.

    Raises Problem: ILLEGAL_SETTING, QUOTA_EXCEEDED or PRECONDITION_FAILED.
    """
    if fault := name_fault(name):
        raise refused("/name", fault, "ILLEGAL_SETTING")
    q = q.strip()
    _reject_unfit(q)
    lock_namespace(namespace)  # two creators of one name: in turn
    row = SharedSearch.objects.filter(namespace=namespace, name=name).first()
    require_revision(row, revision, "search")
    is_new = row is None
    if row is None:
        if SharedSearch.objects.filter(namespace=namespace).count() >= SEARCHES_MAX:
            detail = f"a namespace has at most {SEARCHES_MAX} shared searches; delete one first"
            raise Problem.of("QUOTA_EXCEEDED", detail)
        row = SharedSearch(namespace=namespace, name=name)
    before = None if is_new else settings_of(row, _SETTINGS)
    row.q = q
    after = settings_of(row, _SETTINGS)
    if before != after:
        row.revision = 1 if is_new else row.revision + 1
        row.save()
        old, new = difference(before, after)
        record(principal, namespace, "search.put", f"searches/{name}", before=old, after=new)
    return row, is_new


@transaction.atomic
def delete_search(
    principal: Principal, namespace: Namespace, name: str, *, revision: int | None = None
) -> None:
    """Raises Problem: SEARCH_NOT_FOUND or PRECONDITION_FAILED."""
    lock_namespace(namespace)
    row = get_search(namespace, name)
    require_revision(row, revision, "search")
    before = settings_of(row, _SETTINGS)
    row.delete()
    record(principal, namespace, "search.delete", f"searches/{name}", before=before)


def _reject_unfit(q: str) -> None:
    """A search that says where to look, so that it means the same wherever it is opened."""
    if len(q) > Q_CHARS_MAX:
        detail = f"must have at most {Q_CHARS_MAX} characters, found {len(q)}"
        raise refused("/q", detail, "ILLEGAL_SETTING")
    try:
        wanted = parse_query(q)
    except Fault as fault:
        raise refused("/q", fault.detail, "ILLEGAL_SETTING") from None
    if not (wanted.topic or wanted.group or wanted.is_of_all_topics):
        detail = "must say where to look: topic:NAME, group:NAME, or a key or an ID"
        raise refused("/q", detail, "ILLEGAL_SETTING")
