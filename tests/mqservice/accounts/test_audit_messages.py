"""The audit of copies: one row that says what was copied where, whatever the search was."""

from __future__ import annotations

import pytest

from mqservice.accounts.access import find_principal
from mqservice.accounts.audit_messages import COPY_ACTION, record_copied
from mqservice.accounts.models import AuditEntry
from tests.people import People, bearer


@pytest.mark.django_db
def test_a_copy_has_one_row_with_a_search_of_bounded_length(people: People) -> None:
    principal = find_principal(bearer(people.acme_key))
    assert principal is not None
    record_copied(principal, "acme", "topics/orders", q="key:" + "x" * 5_000, count=3)
    [row] = AuditEntry.objects.filter(action=COPY_ACTION)
    assert (row.target, row.namespace) == ("topics/orders", "acme")
    assert row.details["count"] == 3
    assert len(row.details["q"]) == 1_000


@pytest.mark.django_db
def test_a_search_for_a_byte_that_no_row_can_hold_is_told_all_the_same(people: People) -> None:
    principal = find_principal(bearer(people.acme_key))
    assert principal is not None
    record_copied(principal, "acme", "topics/orders", q='topic:t body:"\0"', count=1)
    [row] = AuditEntry.objects.filter(action=COPY_ACTION)
    assert row.details["q"] == 'topic:t body:"\N{REPLACEMENT CHARACTER}"'
