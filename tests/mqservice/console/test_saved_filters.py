"""Filters that people keep: named, bounded, for their own eyes, and shared by address alone."""

from __future__ import annotations

import pytest
from django.test import Client

from mqservice.console.messages import saved_filters
from mqservice.console.messages.saved_filters import (
    NotSaved,
    delete_filter,
    filters_of,
    save_filter,
)
from mqservice.console.models import SavedFilter
from mqservice.topics.models import Topic
from tests.people import People

PATH = "/console/acme/topics/orders/filters"


@pytest.fixture
def alice(people: People, client: Client) -> Client:
    Topic.objects.create(namespace=people.acme, name="orders")
    client.force_login(people.alice)
    return client


def test_a_search_is_kept_and_leads_back_to_the_same_address(people: People, alice: Client) -> None:
    form = {"name": "  large   orders ", "q": "topic:orders tag:a sql:\"x = '&'\""}
    answer = alice.post(PATH, form)
    (kept,) = filters_of(people.alice, people.acme, "orders")
    assert kept.name == "large orders"
    assert kept.query == "q=topic%3Aorders+tag%3Aa+sql%3A%22x+%3D+%27%26%27%22"
    assert answer["Location"] == f"/console/acme/messages?{kept.query}"
    old = "/console/acme/topics/orders/messages"
    assert alice.get(f"{old}?{kept.query}")["Location"] == answer["Location"]
    alice.post(PATH, {**form, "q": "topic:orders c"})
    (changed,) = filters_of(people.alice, people.acme, "orders")
    assert (changed.pk, changed.query.endswith("+c")) == (kept.pk, True)
    assert filters_of(people.alice, people.acme, "other") == []
    alice.post(PATH, {"delete": str(kept.pk), "q": "c"})
    assert not SavedFilter.objects.exists()


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("", {"tag": "a"}, "needs a name"),
        ("x" * 61, {"tag": "a"}, "needs a name"),
        ("\u202e", {"tag": "a"}, "needs a name"),
        ("none", {"tag": "", "cursor": ""}, "Nothing to save"),
        ("long", {"filter": "é" * 400}, "too long"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    people: People, name: str, fields: dict[str, str], told: str
) -> None:
    with pytest.raises(NotSaved, match=told):
        save_filter(people.alice, people.acme, "orders", name, fields)
    assert not SavedFilter.objects.exists()


def test_there_are_only_so_many_of_a_person(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_filters, "FILTERS_MAX", 2)
    topic = Topic.objects.create(namespace=people.acme, name="orders")
    for name in ("one", "two"):
        save_filter(people.alice, people.acme, "orders", name, {"tag": name})
    with pytest.raises(NotSaved, match="2 filters"):
        save_filter(people.alice, people.acme, "refunds", "three", {"tag": "t"})
    save_filter(people.alice, people.acme, "orders", "two", {"tag": "other"})
    save_filter(people.charlie, people.rival, "orders", "theirs", {"tag": "t"})
    assert SavedFilter.objects.count() == 3
    topic.delete()
    save_filter(people.alice, people.acme, "refunds", "three", {"tag": "t"})
    assert not filters_of(people.alice, people.acme, "orders")
    assert SavedFilter.objects.count() == 2


def test_nobody_sees_or_deletes_those_of_another(people: People, alice: Client) -> None:
    kept = save_filter(people.alice, people.acme, "orders", "mine", {"tag": "a"})
    assert filters_of(people.bob, people.acme, "orders") == []
    assert not delete_filter(people.bob, people.acme, kept.pk)
    assert not delete_filter(people.alice, people.rival, kept.pk)
    viewer = Client()
    viewer.force_login(people.bob)
    assert viewer.post(PATH, {"name": "x", "tag": "a"}).status_code == 403
    assert alice.get(PATH).status_code == 405
    for number in ("", "x", "9" * 30, "-1"):
        assert alice.post(PATH, {"delete": number}).status_code == 302
    assert SavedFilter.objects.filter(pk=kept.pk).exists()
    assert alice.post("/console/acme/topics/nowhere/filters", {"name": "x"}).status_code == 404
