"""Home: what needs attention with its actions, the way of a new tenant, and the navigation."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from mqservice.console.shared import waiting
from mqservice.lib.clock import SystemClock
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import TopicSample
from mqservice.store import StoreClient
from mqservice.topics.models import Topic
from mqservice.topics.queries import TOPICS_PAGE_MAX
from mqservice.topics.services import TopicChange, put_topic
from tests.clock import ManualClock
from tests.mqservice.attention.test_attention import firing, groups, letters, schedule
from tests.mqservice.console.reading import text_of, why_not
from tests.mqservice.groups.reading import Reader
from tests.mqservice.sampling.test_group_health import abandoned, flowing, stuck
from tests.people import People

HOME = "/console/acme/"


def test_each_item_leads_to_what_can_be_done(people: People, alice: Client) -> None:
    groups(people.acme, billing=stuck)
    firing(people.acme, "billing-behind", group_name="billing")
    issue = letters(people.acme, "mail", "no such host", count=3)
    schedule(people.acme, "nightly")
    text = text_of(alice, HOME)
    assert text.index("Nothing was settled for 5 minutes") < text.index("3 dead letters")
    assert 'aria-label="Inspect: billing"' in text
    assert '<a href="/console/acme/alerts/billing-behind">Alert billing-behind is firing' in text
    assert 'href="/console/acme/alerts/billing-behind/mute" aria-label="Mute: billing"' in text
    assert 'href="/console/acme/dead-letters/mail/redrive?reason=no+such+host"' in text
    assert f'action="/console/acme/issues/{issue.public_id}/change"' in text
    assert text.count('class="trend"') == 2
    assert "/v1/ns/acme/attention" in text.split("Same with curl")[1]


def test_acknowledging_takes_an_item_off_the_list(people: People, alice: Client) -> None:
    issue = letters(people.acme, "mail", "no such host", count=3)
    assert "no such host" in text_of(alice, HOME)
    path = f"/console/acme/issues/{issue.public_id}/change"
    alice.post(path, {"verb": "acknowledge"})
    assert "no such host" not in text_of(alice, HOME)


def test_who_may_not_change_anything_is_told_why_not_and_sees_no_reasons(
    people: People, client: Client
) -> None:
    groups(people.acme, billing=stuck)
    firing(people.acme, "billing-behind", group_name="billing")
    letters(people.acme, "mail", "no such host", count=3)
    client.force_login(people.bob)
    text = text_of(client, HOME)
    assert 'aria-label="Inspect: billing"' in text
    for hidden in ("no such host", "/mute", "/redrive", 'name="verb"'):
        assert hidden not in text
    assert {"Mute", "Acknowledge"} <= set(why_not(text))


def test_nothing_wrong_is_said_with_the_figures_of_the_day(reader: Reader, alice: Client) -> None:
    reader.put(1)
    text = text_of(alice, HOME)
    assert "Nothing needs attention." in text
    assert "In the last 24 hours: 0 messages stored, 0 delivered; dead letters: unknown." in text


def test_without_the_engine_nothing_is_called_well(people: People, alice: Client) -> None:
    text = text_of(alice, HOME)
    assert "is not responding" in text
    assert "Nothing needs attention." not in text


def test_who_has_no_message_yet_is_sent_to_the_quick_start(
    people: People, store: StoreClient, alice: Client
) -> None:
    assert alice.get(HOME)["Location"] == "/console/acme/quick-start"
    put_topic(people.acme, "orders", TopicChange())
    assert alice.get(HOME)["Location"] == "/console/acme/quick-start"


def test_message_in_a_topic_far_down_the_list_is_seen(
    people: People, store: StoreClient, alice: Client
) -> None:
    names = [*(f"empty-{number}" for number in range(TOPICS_PAGE_MAX)), "orders"]
    Topic.objects.bulk_create(Topic(namespace=people.acme, name=name) for name in names)
    now_ms = SystemClock().now_ms()
    TopicSample.objects.bulk_create(
        TopicSample(
            namespace=people.acme, topic=name, resolution_ms=SAMPLE_MS,
            at_ms=now_ms - now_ms % SAMPLE_MS, stored_last=int(name == "orders"), readable_last=0,
        )
        for name in names
    )  # fmt: skip
    assert alice.get(HOME).status_code == 200


def test_navigation_has_six_places_and_two_folds_that_lead_to_every_page(
    people: People, alice: Client
) -> None:
    side = text_of(alice, "/console/acme/usage").split('class="side-nav"')[1].split("</nav>")[0]
    always, *folds = re.split(r"<details class=\"side-fold\"", side)
    titles = re.findall(r"</svg>([^<]+)</a>", always)
    assert titles == ["Home", "Topics", "Groups", "Messages", "Failures", "Schedules"]
    monitor, settings = folds
    assert monitor.startswith(" open>")
    assert settings.startswith("><summary")
    for path in re.findall(r'href="([^"]+)"', side):
        assert alice.get(path).status_code in (200, 302), path
    for path, tabs in (
        ("issues", ["Issues", "Dead letters"]),
        ("dead-letters", ["Issues", "Dead letters"]),
        ("schedules", ["Cron schedules", "Scheduled messages"]),
        ("scheduled", ["Cron schedules", "Scheduled messages"]),
    ):
        text = text_of(alice, f"/console/acme/{path}")
        bar = text.split('aria-label="Pages of this kind"')[1].split("</nav>")[0]
        assert re.findall(r">([^<]+)</a>", bar) == tabs


def test_navigation_shows_only_what_the_user_may_open(people: People, client: Client) -> None:
    client.force_login(people.bob)
    text = text_of(client, "/console/acme/schedules")
    assert "Messages</a>" not in text
    assert "Pages of this kind" not in text  # of the two, one


def test_counts_tell_where_something_waits(
    people: People, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(SystemClock().now_ms())
    monkeypatch.setattr(waiting, "SystemClock", lambda: clock)
    groups(people.acme, billing=stuck, mail=abandoned, fine=flowing)
    issue = letters(people.acme, "mail", "late", count=3)
    schedule(people.acme, "nightly", last_error="late")
    firing(people.acme, "billing-behind")
    assert counted(alice) == {"Groups": 2, "Failures": 1, "Schedules": 1, "Monitor": 1, "Alerts": 1}
    letters(people.acme, "mail", "later", count=1)
    assert counted(alice)["Failures"] == 1  # remembered for some seconds
    alice.post(f"/console/acme/issues/{issue.public_id}/change", {"verb": "resolve"})
    assert counted(alice)["Failures"] == 1
    letters(people.acme, "mail", "again", count=1)
    clock.advance(waiting.COUNTED_MS)
    assert counted(alice)["Failures"] == 2


def counted(client: Client) -> dict[str, int]:
    side = text_of(client, "/console/acme/topics").split('class="side-nav"')[1].split("</nav>")[0]
    found = re.findall(r'>([^<>]+)<span class="side-count"[^>]*>(\d+)<', side)
    return {title: int(count) for title, count in found}
