"""Purging a topic in the console: numbers first, the name typed, and what it says then."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry
from mqservice.store import StoreClient
from tests.mqservice.groups.reading import Reader


@pytest.fixture
def reader(acme: Client, store: StoreClient) -> Reader:
    reader = Reader(acme, store, queues=2)
    reader.put(1_200)
    reader.put(34, queue_id=1)
    reader.receive(3)
    return reader


def test_page_shows_what_would_go_and_the_name_lets_it_go(reader: Reader, alice: Client) -> None:
    path = f"/console/acme/topics/{reader.topic}/purge"
    page = alice.get(path).content.decode()
    assert "<dd>1,234</dd>" in page
    assert "<dt>In flight</dt><dd>3 " in page
    assert f"/v1/ns/acme/topics/{reader.topic}:purge" in page
    for typed in ("", reader.topic[:-1]):
        assert alice.post(path, {"confirm": typed}).status_code == 422
    assert not AuditEntry.objects.filter(action="topic.purge").exists()
    done = alice.post(path, {"confirm": reader.topic}, follow=True)
    assert done.redirect_chain[-1][0] == f"/console/acme/topics/{reader.topic}"
    assert f"1,234 messages of {reader.topic} were purged." in done.content.decode()
    entry = AuditEntry.objects.get(action="topic.purge")
    assert (entry.actor, entry.details["messages"]) == ("user:alice", 1_234)
    assert "<dd>0</dd>" in alice.get(path).content.decode()


def test_where_the_engine_is_unavailable_the_page_says_so(
    reader: Reader, alice: Client, settings: Settings
) -> None:
    settings.MQ_ENGINE_SOCKET = "/nonexistent/socket"
    page = alice.get(f"/console/acme/topics/{reader.topic}/purge")
    assert page.status_code == 200
    assert 'role="alert"' in page.content.decode()
    assert "Purge messages" not in page.content.decode()
