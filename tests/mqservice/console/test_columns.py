"""Columns that a person chooses: kept for them alone, on every device, with a way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from mqservice.console.models import ColumnChoice
from mqservice.console.shared.columns import TABLES, columns_of
from mqservice.groups.models import ConsumerGroup
from mqservice.topics.models import Topic
from tests.people import People

CHOOSE = "/console/-/columns"
PAGES = {"topics": "/console/acme/topics", "groups": "/console/acme/groups"}
EXPLORER = ("messages", "group_dead_letters")  # one page shows both
TEMPLATES = Path(__file__).parents[3] / "frontend" / "templates" / "console"


@pytest.fixture
def alice(people: People, client: Client) -> Client:
    Topic.objects.create(namespace=people.acme, name="orders")
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    client.force_login(people.alice)
    return client


def head_of(client: Client, table: str) -> str:
    page = client.get(PAGES[table]).content.decode()
    return page[page.index("<thead>") : page.index("</thead>")]


@pytest.mark.parametrize("table", PAGES)
def test_choice_holds_for_the_person_until_it_is_taken_back(
    people: People, alice: Client, table: str
) -> None:
    usual = head_of(alice, table)
    assert "Lag" in usual
    assert "Created" not in usual
    answer = alice.post(CHOOSE, {"table": table, "column": ["created"], "next": PAGES[table]})
    assert answer.headers["Location"] == PAGES[table]
    other_device = Client()
    other_device.force_login(people.alice)
    head = head_of(other_device, table)
    assert head.count("<th ") == 2
    assert "Created" in head
    page = alice.get(PAGES[table]).content.decode()
    assert page.count("checked>") == 1
    assert '<input type="checkbox" name="column" value="created" checked>' in page
    viewer = Client()
    viewer.force_login(people.bob)
    assert head_of(viewer, table) == usual
    alice.post(CHOOSE, {"table": table, "column": ["created"], "usual": "1"})
    assert head_of(alice, table) == usual
    assert not ColumnChoice.objects.exists()


def test_only_what_is_unusual_is_kept(people: People, alice: Client) -> None:
    names = [column.name for column in TABLES["topics"] if column.is_usual]
    alice.post(CHOOSE, {"table": "topics", "column": names})
    assert not ColumnChoice.objects.exists()
    alice.post(CHOOSE, {"table": "topics", "column": [*names[1:], "created", "nothing", "<b>"]})
    assert ColumnChoice.objects.get().changed == {"messages": False, "created": True}
    alice.post(CHOOSE, {"table": "topics"})  # none at all
    assert columns_of(people.alice, "topics").shown == frozenset()
    assert head_of(alice, "topics").count("<th ") == 1


def test_what_is_no_table_or_no_choice_of_ones_own_is_refused(
    people: People, alice: Client
) -> None:
    assert alice.post(CHOOSE, {"table": "users"}).status_code == 404
    assert alice.get(CHOOSE).status_code == 405
    stranger = Client()
    answer = stranger.post(CHOOSE, {"table": "topics", "column": ["lag"]})
    assert "/account/login/" in answer.headers["Location"]
    answer = alice.post(CHOOSE, {"table": "topics", "next": "https://evil.example"})
    assert answer.headers["Location"] == "/console/"
    assert ColumnChoice.objects.get().user == people.alice


@pytest.mark.parametrize("table", TABLES)
def test_each_column_is_in_the_head_and_in_each_row_of_its_table(table: str) -> None:
    tables = EXPLORER if table in EXPLORER else (table,)
    name = "_explorer_table" if table in EXPLORER else table
    text = (TEMPLATES / f"{name}.html").read_text()
    columns = {column.name for each in tables for column in TABLES[each]}
    for column in columns:
        assert text.count(f'{{% if "{column}" in columns.shown %}}') == 2, column
    assert text.count("in columns.shown") == 2 * len(columns)
