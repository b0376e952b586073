"""Rows found and inserted without the ORM's own statements are the same rows."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from pytest_django.fixtures import DjangoAssertNumQueries

from mqservice.accounts.models import AuditEntry
from mqservice.lib.rows import RowFinder, insert, insert_all, update_all
from mqservice.topics.models import Topic
from tests.people import People

TOPICS = RowFinder(Topic, "namespace_id", "name")


def columns(row: Topic | AuditEntry) -> dict[str, object]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


def test_found_as_the_orm_finds_it(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    saved = Topic.objects.create(namespace=people.acme, name="o'rders%s")
    with django_assert_num_queries(1):
        found = TOPICS.find(people.acme.pk, "o'rders%s")
    assert found == saved
    assert found is not None
    assert columns(found) == columns(Topic.objects.get(pk=saved.pk))
    assert TOPICS.find(people.rival.pk, "o'rders%s") is None


def test_what_was_found_is_saved_as_the_row_it_is(people: People) -> None:
    Topic.objects.create(namespace=people.acme, name="orders")
    found = TOPICS.find(people.acme.pk, "orders")
    assert found is not None
    found.queue_count = 7
    found.save()
    assert [row.queue_count for row in Topic.objects.all()] == [7]


def test_inserted_as_the_orm_inserts_it(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    topic = Topic(namespace=people.acme, name="orders", queue_count=3)
    with django_assert_num_queries(1):
        insert(topic)
    assert columns(topic) == columns(Topic.objects.get(name="orders"))
    topic.queue_count = 4
    topic.save()
    assert [row.queue_count for row in Topic.objects.all()] == [4]


def test_json_is_inserted_as_json_and_none_as_null(people: People) -> None:
    insert(
        AuditEntry(
            tenant=people.acme.tenant,
            actor="service",
            action="topic.put",
            namespace="acme",
            target="topics/a",
            outcome="done",
            details={},
            before=None,
            after={"queues": [1, "%s"]},
        )
    )
    (row,) = AuditEntry.objects.filter(before__isnull=True, details={})
    assert (row.before, row.after) == (None, {"queues": [1, "%s"]})


def test_a_second_row_of_the_same_name_is_refused_as_ever(people: People) -> None:
    insert(Topic(namespace=people.acme, name="orders"))
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(Topic(namespace=people.acme, name="orders"))


def test_columns_that_are_converted_when_read_are_as_the_orm_reads_them(people: People) -> None:
    details = {"queues": [1, "%s"]}
    insert(AuditEntry(tenant=people.acme.tenant, actor="a", action="a", details=details))
    expected = AuditEntry.objects.get(actor="a")
    found = RowFinder(AuditEntry, "id").find(expected.pk)
    assert found is not None
    assert (found.details, columns(found)) == (details, columns(expected))


def test_many_are_inserted_and_written_over_in_one_query_each(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    topics = [Topic(namespace=people.acme, name=f"t{at}", queue_count=at) for at in range(1, 4)]
    with django_assert_num_queries(1):
        insert_all(topics)
    assert [columns(each) for each in topics] == [
        columns(each) for each in Topic.objects.order_by("name")
    ]
    before = list(Topic.objects.order_by("name"))
    for topic in before:
        topic.queue_count, topic.body_bytes_max = topic.queue_count + 10, 2_048
    with django_assert_num_queries(1):
        update_all(before, ("queue_count", "updated_at"))
    after = list(Topic.objects.order_by("name"))
    assert [each.queue_count for each in after] == [11, 12, 13]
    assert {each.body_bytes_max for each in after} == {4_194_304}  # not among the names
    for old, new in zip(topics, after, strict=True):
        assert (new.pk, new.created_at) == (old.pk, old.created_at)
        assert new.updated_at > old.updated_at
    with django_assert_num_queries(0):
        insert_all([])
        update_all([], ("queue_count",))
