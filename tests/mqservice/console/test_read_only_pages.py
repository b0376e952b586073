"""Read-only mode in the console: a badge everywhere, no action anywhere, who may ends it."""

from __future__ import annotations

from typing import Final

import pytest
from django.test import Client

from mqservice.accounts.models import Namespace
from mqservice.groups.services import GroupChange, put_group
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, put_topic
from tests.mqservice.console.reading import why_not
from tests.people import People

PAGE = "/console/acme/read-only"
SWITCH = f"{PAGE}/switch"
# What each page offers to who may change things.
ACTIONS: Final = {
    "topics": "new-topic", "topics/orders": "topics/orders/edit", "groups": "new-group",
    "groups/billing": "groups/billing/reset", "alerts": "new-alert",
    "definitions": "definitions/import", "masking": "new-mask",
}  # fmt: skip
CHANGES: Final = (
    "new-topic", "topics/orders/edit", "topics/orders/delete", "topics/orders/purge",
    "topics/orders/publish", "new-group", "groups/billing/edit", "groups/billing/delete",
    "groups/billing/pause", "groups/billing/reset", "definitions/import", "new-alert", "new-mask",
    "masking-bodies", "clients/disconnect", "dead-letters/billing/redrive",
    "dead-letters/billing/purge", "reports/run",
)  # fmt: skip


@pytest.fixture
def alice(people: People, engine: str, client: Client) -> Client:
    put_topic(people.acme, "orders", TopicChange())
    put_group(people.acme, "billing", GroupChange())
    client.force_login(people.alice)
    return client


def test_a_badge_is_on_each_page_and_an_action_on_none(alice: Client) -> None:
    for path, action in ACTIONS.items():
        page = alice.get(f"/console/acme/{path}").content.decode()
        assert action in page, path
        assert ">Read-only</a>" not in page
    done = alice.post(SWITCH, {"on": "1", "reason": "release <1.2>"}, follow=True)
    assert "now read-only" in done.content.decode()
    for path, action in {**ACTIONS, "usage": "new-topic", "keys": "x-none"}.items():
        page = alice.get(f"/console/acme/{path}").content.decode()
        assert action not in page, path
        told = set(why_not(page).values())
        assert not told or told == {
            "This namespace is read-only, so nothing in it can be changed here."
        }
        assert told or path not in ACTIONS, path
        assert 'title="release &lt;1.2&gt;">Read-only</a>' in page


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_is_refused_with_the_reason(alice: Client, path: str) -> None:
    alice.post(SWITCH, {"on": "1", "reason": "a freeze"})
    answer = alice.post(f"/console/acme/{path}", {"confirm": "orders", "name": "orders"})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "a freeze" in page
    assert "user:alice" in page
    assert list(Topic.objects.values_list("name", flat=True)) == ["orders"]


def test_scheduled_messages_stay_as_they_are_and_keys_can_be_revoked(alice: Client) -> None:
    alice.post(SWITCH, {"on": "1"})
    page = alice.post("/console/acme/scheduled/orders", {"cancel": "1", "handle": "rc_x"})
    assert page.status_code == 403
    assert alice.get("/console/acme/new-key").status_code == 200
    assert alice.get("/console/acme/scheduled").status_code == 200


def test_who_may_ends_it_and_others_read_why(alice: Client, people: People) -> None:
    alice.post(SWITCH, {"on": "1", "reason": "a freeze"})
    viewer = Client()
    viewer.force_login(people.bob)
    page = viewer.get(PAGE).content.decode()
    assert "a freeze" in page
    assert "Only admins and owners can change this." in page
    assert "Allow changes again" not in page
    assert viewer.post(SWITCH, {"on": "0"}).status_code == 403
    assert Namespace.objects.get(name="acme").is_read_only
    assert "Allow changes again" in alice.get(PAGE).content.decode()
    alice.post(SWITCH, {"on": "0"})
    assert not Namespace.objects.get(name="acme").is_read_only
    assert alice.get("/console/acme/new-topic").status_code == 200


def test_a_reason_that_is_too_long_changes_nothing(alice: Client) -> None:
    page = alice.post(SWITCH, {"on": "1", "reason": "x" * 201}, follow=True).content.decode()
    assert "200" in page
    assert not Namespace.objects.get(name="acme").is_read_only


def test_a_stranger_finds_nothing(alice: Client, people: People) -> None:
    alice.force_login(people.charlie)
    assert alice.get(PAGE).status_code == 404
    assert alice.post(SWITCH, {"on": "1"}).status_code == 404
