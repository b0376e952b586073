"""What a search finds, in which order, and that it offers nothing that the user may not do."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from mqservice.accounts.models import User
from mqservice.console.search.entries import NAMED_ACTIONS_MAX
from mqservice.console.search.views import FOUND_MAX
from mqservice.groups.models import ConsumerGroup
from mqservice.topics.models import Topic
from tests.mqservice.console.reading import text_of
from tests.people import People

BASE = "/console/acme"
Found = dict[str, dict[str, str]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ord", ["Order-9", "orders", "big-orders", "a-record"]),
        ("ORD", ["Order-9", "orders", "big-orders", "a-record"]),
        ("orders", ["orders", "big-orders"]),
        ("ord big", ["big-orders"]),
        ("rd%", []),
        ("", []),
    ],
)
def test_names_that_begin_with_the_text_come_first(
    people: People, client: Client, text: str, found: list[str]
) -> None:
    for name in ("orders", "Order-9", "big-orders", "a-record", "billing"):
        Topic.objects.create(namespace=people.acme, name=name, queue_count=1)
    assert list(found_by(client, people.alice, text).get("Topics", {})) == found


def test_exact_beginning_is_shown_however_many_contain_the_text(
    people: People, client: Client
) -> None:
    for number in range(FOUND_MAX):
        Topic.objects.create(namespace=people.acme, name=f"a-record-{number}", queue_count=1)
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    shown = list(found_by(client, people.alice, "ord")["Topics"])
    assert (shown[0], len(shown)) == ("orders", FOUND_MAX)


def test_an_action_leads_to_a_field_that_its_form_has(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    client.force_login(people.alice)
    text = client.get(f"{BASE}/search.json").content.decode()
    text += client.get(f"{BASE}/search.json?q=publish+orders").content.decode()
    addresses = re.findall(r'"(/[^"#]*)#(id_\w+)"', text)
    assert len(addresses) >= 6
    for url, field in addresses:
        assert f'id="{field}"' in client.get(url).content.decode()


def test_without_a_text_it_offers_pages_and_actions(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    found = found_by(client, people.alice, "")
    assert list(found) == ["Actions", "Pages"]
    assert found["Actions"]["New topic"] == f"{BASE}/new-topic"
    assert found["Pages"]["Audit log"] == f"{BASE}/audit"


def test_first_word_and_a_part_of_a_name_are_an_action(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    ConsumerGroup.objects.create(namespace=people.acme, name="billing-orders")
    assert found_by(client, people.alice, "publish ord")["Actions"] == {
        "Publish to orders": f"{BASE}/topics/orders/publish"
    }
    assert found_by(client, people.alice, "live ord")["Actions"] == {
        "Live tail of orders": f"{BASE}/tail?topic=orders"
    }
    assert found_by(client, people.alice, "edit ord")["Actions"] == {
        "Edit orders": f"{BASE}/topics/orders/edit",
        "Edit billing-orders": f"{BASE}/groups/billing-orders/edit",
    }
    assert found_by(client, people.alice, "dead letters bill")["Actions"] == {
        "Dead letters of billing-orders": f"{BASE}/dead-letters/billing-orders"
    }
    assert found_by(client, people.alice, "alert on bill ord")["Actions"] == {
        "Alert on billing-orders": f"{BASE}/new-alert?group=billing-orders"
    }
    for number in range(NAMED_ACTIONS_MAX + 1):
        Topic.objects.create(namespace=people.acme, name=f"many-{number}", queue_count=1)
    assert len(found_by(client, people.alice, "publish many")["Actions"]) == NAMED_ACTIONS_MAX


def test_viewer_is_offered_what_a_viewer_may_open(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    found = found_by(client, people.bob, "")
    assert "Actions" not in found
    assert "Topics" in found["Pages"]
    assert {"Audit log", "API keys", "Messages", "Operator"} & set(found["Pages"]) == set()
    for text in ("publish ord", "0" * 34, "topic:orders", "order-42"):
        assert found_by(client, people.bob, text) == {}
    assert list(found_by(client, people.bob, "orders")) == ["Topics"]


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ("01" + "aB" * 16, "Messages", f"/traces/01{'AB' * 16}"),
        ("ab" * 16, "Messages", f"/traces/{'AB' * 16}"),
        ("topic:orders tag:paid", "Search messages", "/messages?q=topic%3Aorders+tag%3Apaid"),
        ("order-42", "Search messages", "/messages?q=key%3Aorder-42"),
        ("a b:c", "Search messages", "/messages?q=key%3A%22a+b%3Ac%22"),
        ("k1 tag:paid", "Search messages", "/messages?q=k1+tag%3Apaid"),
        ("tag:paid", "Search messages", "/messages?q=key%3Atag%3Apaid"),
    ],
)
def test_message_is_found_by_id_key_or_query(
    people: People, client: Client, text: str, kind: str, path: str
) -> None:
    assert f"{BASE}{path}" in found_by(client, people.alice, text)[kind].values()


def test_titles_are_found_in_the_users_language_and_in_english(
    people: People, client: Client
) -> None:
    client.cookies["mq_language"] = "zh-hans"
    assert "审计日志" in found_by(client, people.alice, "audit")["页面"]
    assert "审计日志" in found_by(client, people.alice, "审计")["页面"]


def test_other_namespaces_of_the_user_are_found_and_nobody_elses(
    people: People, client: Client
) -> None:
    assert found_by(client, people.alice, "rival").keys() == {"Search messages"}
    people.rival.tenant = people.acme.tenant
    people.rival.save()
    found = found_by(client, people.alice, "rival")["Pages"]
    assert found == {"Namespace rival": "/console/rival/"}


def test_page_shows_the_same_without_scripts(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders", queue_count=1)
    client.force_login(people.alice)
    text = text_of(client, f"{BASE}/search?q=publish+ord")
    assert f'<a href="{BASE}/topics/orders/publish#id_body">Publish to orders</a>' in text
    text = text_of(client, f"{BASE}/search?q=%3Cscript%3E")
    assert "<script>" not in text.partition("<main")[2]


def found_by(client: Client, user: User, text: str) -> Found:
    """Address by title, of each kind; each but a search leads to the content of its page, or into
    it.
    """
    client.force_login(user)
    answer = client.get(f"{BASE}/search.json", {"q": text}).json()
    entries = [entry for group in answer["groups"] for entry in group["entries"]]
    entries = [each for each in entries if not each["url"].startswith("/guide/")]
    assert all(("#" in each["url"]) != ("/messages?" in each["url"]) for each in entries)
    return {
        group["title"]: {
            entry["title"]: entry["url"].partition("#")[0] for entry in group["entries"]
        }
        for group in answer["groups"]
    }
