"""The search box: what it finds, and in which order when not everything can be shown."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from mqservice.console.home.views import FOUND_MAX
from mqservice.topics.models import Topic
from tests.people import People


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ord", ["Order-9", "orders", "big-orders", "a-record"]),
        ("ORD", ["Order-9", "orders", "big-orders", "a-record"]),
        ("orders", ["orders", "big-orders"]),
        ("rd%", []),
        ("", []),
    ],
)
def test_names_that_begin_with_the_text_come_first(
    people: People, client: Client, text: str, found: list[str]
) -> None:
    for name in ("orders", "Order-9", "big-orders", "a-record", "billing"):
        Topic.objects.create(namespace=people.acme, name=name, queue_count=1)
    assert names(people, client, text) == found


def test_exact_beginning_is_shown_however_many_contain_the_text(
    people: People, client: Client
) -> None:
    for number in range(FOUND_MAX):
        Topic.objects.create(namespace=people.acme, name=f"a-record-{number}", queue_count=1)
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    shown = names(people, client, "ord")
    assert (shown[0], len(shown)) == ("orders", FOUND_MAX)


def names(people: People, client: Client, text: str) -> list[str]:
    client.force_login(people.alice)
    part = client.get("/console/acme/search", {"q": text}, headers={"HX-Request": "true"})
    return re.findall(r'class="menu-item"[^>]*>([^<]+)<', part.content.decode())
