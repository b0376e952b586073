"""The message explorer: where one can look, rows and bars of a search, old addresses, refusals."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from mqservice.accounts.models import Member, Role
from mqservice.console.shared import data_plane
from mqservice.console.shared.data_plane import DataPlaneResponse
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.timestamps import rfc3339
from mqservice.masking.models import MaskRule
from mqservice.topics.models import Topic
from tests.people import People

ROOT = "/console/acme"
PAGE = f"{ROOT}/messages"
LONG = "n" * 64
MESSAGE: dict[str, object] = {
    "id": "01AB", "topic": "orders", "tag": None, "keys": ["k1"], "message_group": None,
    "properties": {}, "queue": 2, "offset": 7, "born_at": "2026-11-26T10:00:00.000Z",
    "stored_at": "2026-11-26T10:00:00.000Z", "body": "\u202eabc <b>",
}  # fmt: skip
BARS = [
    {"at": "2026-11-26T09:59:30.000Z", "count": 4},
    {"at": "2026-11-26T10:00:00.000Z", "count": 0},
    {"at": "2026-11-26T10:01:00.000Z", "count": 1},
]


@pytest.fixture
def alice(people: People, client: Client) -> Client:
    for name in ("orders", LONG):
        Topic.objects.create(namespace=people.acme, name=name)
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    client.force_login(people.alice)
    return client


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What the pages ask the data plane, which finds one message."""
    queries: list[dict[str, str]] = []

    async def answered(*given: Any) -> DataPlaneResponse:  # Any: as it is called
        queries.append(given[5])
        if given[4].endswith(":histogram"):
            return DataPlaneResponse(status=200, data={"bar_ms": 60_000, "total": 5, "bars": BARS})
        data = {"messages": [MESSAGE], "next_cursor": "n&1", "previous_cursor": "p1"}
        return DataPlaneResponse(status=200, data={**data, "is_complete": True})

    monkeypatch.setattr(data_plane, "_call", answered)
    monkeypatch.setattr(data_plane, "_plane_of", lambda _request: None)
    return queries


def test_without_a_place_it_offers_topics_and_groups_for_the_rest_of_the_search(
    alice: Client, asked: list[dict[str, str]]
) -> None:
    text = alice.get(PAGE, {"q": "tag:k1"}).content.decode()

    assert 'href="?q=topic%3Aorders%20tag%3Ak1"' in text
    assert f'href="?q=topic%3A{LONG}%20tag%3Ak1"' in text
    assert 'href="?q=group%3Abilling%20tag%3Ak1"' in text
    assert asked == []


def test_an_empty_namespace_offers_its_first_topic_and_its_first_group(
    people: People, client: Client
) -> None:
    client.force_login(people.charlie)
    text = client.get("/console/rival/messages").content.decode()
    assert 'href="/console/rival/new-topic">Create the first topic</a>' in text
    assert 'href="/console/rival/new-group">Create the first group</a>' in text
    assert text.count("Create the first topic") == 1


def test_a_key_without_a_place_is_looked_for_in_all_topics_and_the_rest_is_told(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[dict[str, str]] = []
    found = [MESSAGE, {**MESSAGE, "id": "02", "topic": LONG}]
    data = {"messages": found, "next_cursor": "n1", "previous_cursor": None, "is_complete": True}
    told = {"topics_searched": 256, "topics_left": 1_744, "more_in": [LONG]}

    async def answered(*given: Any) -> DataPlaneResponse:  # Any: as it is called
        queries.append(given[5])
        return DataPlaneResponse(status=200, data={**data, **told})

    monkeypatch.setattr(data_plane, "_call", answered)
    monkeypatch.setattr(data_plane, "_plane_of", lambda _request: None)

    text = html.unescape(alice.get(PAGE, {"q": "k1"}).content.decode())

    assert queries == [{"q": "k1", "limit": "50"}], "no histogram is counted"
    assert f'href="{ROOT}/topics/orders/messages/01AB" data-drawer' in text
    assert f'href="{ROOT}/topics/{LONG}/messages/02" data-drawer' in text
    assert "Searched 256 topics; 1,744 not searched yet." in text
    assert f'href="?q=topic%3A{LONG}%20k1">{LONG}</a>' in text
    assert "cursor=n1" in text
    for what in ("export.csv", "copy", "data-explorer-live", 'type="checkbox"'):
        assert what not in text.partition('id="found"')[2].partition("</form>")[0], what
    data["messages"] = []
    text = alice.get(PAGE, {"q": "k1"}).content.decode()
    assert "there are more topics to search" in text
    assert 'href="?q=group%3Abilling%20k1"' in text, "dead letters are elsewhere"


def test_what_is_hidden_in_each_topic_stays_so_in_a_search_of_all(
    people: People, alice: Client, asked: list[dict[str, str]]
) -> None:
    MaskRule.objects.create(
        namespace=people.acme, topics="ord*", part="body", path="", clear_for="owner"
    )
    Member.objects.filter(user=people.alice).update(role=Role.DEVELOPER)

    text = alice.get(PAGE, {"q": "k1"}).content.decode()
    refused = alice.get(PAGE, {"q": "k1 body:abc"})

    assert "hidden from your role" in text
    assert "abc &lt;b&gt;" not in text
    assert refused.status_code == 403
    assert len(asked) == 1, "nothing is asked that would tell what is hidden"


def test_rows_lead_to_the_message_and_pages_lead_both_ways(
    alice: Client, asked: list[dict[str, str]]
) -> None:
    text = alice.get(PAGE, {"q": "topic:orders tag:a", "cursor": "c"}).content.decode()

    assert asked[0] == {"q": "topic:orders tag:a", "limit": "50", "cursor": "c"}
    assert f'href="{ROOT}/topics/orders/messages/01AB" data-drawer' in text
    assert "\u202eabc &lt;b&gt;" in text
    assert "cursor=n%261" in text
    assert "cursor=p1" in text
    assert "order=oldest" in text


def test_each_bar_with_messages_narrows_the_search_to_its_time(
    alice: Client, asked: list[dict[str, str]]
) -> None:
    text = html.unescape(alice.get(PAGE, {"q": "topic:orders last:1h tag:a"}).content.decode())

    assert asked[1] == {"q": "topic:orders last:1h tag:a"}
    figure = text[text.index("<figure") : text.index("</figure>")]
    assert figure.count("<li>") == 3
    assert figure.count("<a ") == 2
    time = "from%3A2026-11-26T10%3A01%3A00.000Z+to%3A2026-11-26T10%3A01%3A59.999Z"
    assert f"?q=topic%3Aorders+tag%3Aa+{time}" in figure
    assert 'data-histogram="topic:orders tag:a"' in figure


def test_live_switch_asks_for_what_is_newer_and_gets_rows_alone(
    alice: Client, asked: list[dict[str, str]]
) -> None:
    def part(q: str, since: str) -> str:
        answer = alice.get(PAGE, {"q": q, "since": since}, headers={"HX-Request": "true"})
        return str(answer.content.decode())

    text = part("topic:orders last:1h tag:a", "2026-11-26T10:00:00.000Z")
    assert text.count("<tr>") == 2
    assert "<html" not in text
    # Nothing more is stored in a millisecond that is long over.
    assert asked == [{"q": "topic:orders tag:a from:2026-11-26T10:00:00.001Z", "limit": "50"}], (
        "no histogram is counted"
    )
    now = rfc3339(SystemClock().now_ms())
    part("topic:orders", now)
    assert asked[1]["q"] == f"topic:orders from:{now}"
    part("topic:orders", "yesterday")
    assert asked[2]["q"] == "topic:orders"


@pytest.mark.parametrize(
    ("query", "is_offered"),
    [
        ({"q": "topic:orders last:1h"}, True),
        ({"q": "group:billing"}, True),
        ({"q": "topic:orders", "order": "oldest"}, False),
        ({"q": "topic:orders", "cursor": "c"}, False),
        ({"q": "topic:orders to:2026-11-26T10:00:00.000Z"}, False),
        ({"q": f"topic:orders id:01{'A' * 32}"}, False),
    ],
)
def test_live_switch_is_where_new_messages_would_come_on_top(
    alice: Client, asked: list[dict[str, str]], query: dict[str, str], is_offered: bool
) -> None:
    text = alice.get(PAGE, query).content.decode()
    assert ("data-explorer-live" in text) is is_offered


def test_oldest_first_is_asked_for_and_kept(alice: Client, asked: list[dict[str, str]]) -> None:
    text = alice.get(PAGE, {"q": "topic:orders", "order": "oldest"}).content.decode()

    assert asked[0]["order"] == "oldest"
    assert '<input type="hidden" name="order" value="oldest">' in text


def test_selected_rows_and_whole_searches_become_files(
    alice: Client, asked: list[dict[str, str]]
) -> None:
    some = alice.get(f"{PAGE}/export.ndjson", {"q": "topic:orders tag:a", "id": ["01AB", "02"]})
    everything = alice.get(f"{PAGE}/export.csv", {"q": "topic:orders tag:a"})

    assert asked[0]["q"] == "topic:orders id:01AB,02"
    assert some["Content-Type"] == "application/x-ndjson"
    assert 'filename="orders-messages.ndjson"' in some["Content-Disposition"]
    assert asked[1]["q"] == "topic:orders tag:a"
    assert everything["Content-Type"].startswith("text/csv")
    assert alice.get(f"{PAGE}/export.exe", {"q": "topic:orders"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("topics/orders/messages", "topic:orders"),
        ("topics/orders/messages?key=a+b", 'topic:orders key:"a b"'),
        (
            "topics/orders/messages?tag=a+||+b&from=2026-11-26T10:00&filter=x+%3E+1&contains=z",
            'topic:orders tag:"a || b" from:2026-11-26T10:00:00Z body:z sql:"x > 1"',
        ),
        ("topics/orders/messages?q=topic:orders+tag:a", "topic:orders tag:a"),
        ("dead-letters/billing?reason=a+b", 'group:billing reason:"a b"'),
        ("traces?topic=orders&key=k1", "topic:orders key:k1"),
        ("traces", ""),
    ],
)
def test_old_addresses_lead_to_the_search_that_they_meant(
    alice: Client, path: str, query: str
) -> None:
    answer = alice.get(f"{ROOT}/{path}")

    assert answer.status_code == 302
    assert urlsplit(answer["Location"]).path == PAGE
    assert parse_qs(urlsplit(answer["Location"]).query).get("q", [""]) == [query]


def test_a_copy_is_previewed_before_it_is_stored(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, dict[str, object]]] = []
    keys: list[str] = []
    emptied: dict[str, object] = {}  # of the first page

    async def answered(*given: Any) -> DataPlaneResponse:  # Any: as it is called
        body = json.loads(given[6])
        sent.append((given[4], body))
        keys.append(given[7])
        page = {"count": 2, "bytes": 7, "cursor": "c1", "next_cursor": None, "messages": []}
        data = {**page, **(emptied if body["cursor"] is None else {}), "dry_run": body["dry_run"]}
        return DataPlaneResponse(status=200, data=data)

    monkeypatch.setattr(data_plane, "_call", answered)
    monkeypatch.setattr(data_plane, "_plane_of", lambda _request: None)
    page = f"{PAGE}/copy"
    target = "/v1/ns/acme/topics/orders/messages:copy"

    asked = alice.get(page, {"q": "topic:orders tag:a", "id": ["01AB", "02"]})
    assert "2 messages of 7 B would be stored in orders." in asked.content.decode()
    assert sent.pop() == (target, {"q": "topic:orders id:01AB,02", "cursor": None, "dry_run": True})
    [key] = re.findall('name="key" value="([0-9a-f]{32})"', asked.content.decode())
    assert 'name="cursor" value="c1"' in asked.content.decode()

    emptied |= {"count": 0, "next_cursor": "n1"}
    assert "2 messages of" in alice.get(page, {"q": "topic:orders body:x"}).content.decode()
    assert [body["cursor"] for _, body in sent] == [None, "n1"]
    sent.clear()
    emptied.clear()

    form = {"q": "topic:orders id:01AB,02", "target": LONG, "key": key, "cursor": "c1"}
    alice.post(page, {**form, "preview": "1"})
    assert sent.pop()[1]["dry_run"] is True
    done = alice.post(page, form)
    assert keys == ["", "", "", "", key]
    assert sent.pop() == (
        f"/v1/ns/acme/topics/{LONG}/messages:copy",
        {"q": "topic:orders id:01AB,02", "cursor": "c1", "dry_run": False},
    )
    assert done["Location"] == f"{ROOT}/topics/{LONG}/messages"
    assert alice.post(page, {**form, "target": "a/b"}).status_code == 400
    assert sent == []


def test_a_copy_never_shows_what_masking_hides(
    people: People, alice: Client, asked: list[dict[str, str]]
) -> None:
    MaskRule.objects.create(
        namespace=people.acme, name="cards", topics="orders", part="field", path="/card"
    )
    Member.objects.filter(user=people.alice).update(role=Role.DEVELOPER.value)

    for form in (
        {"target": LONG, "q": "topic:orders"},
        {"q": "topic:orders body:4"},
        {"q": 'topic:orders body:" "'},
    ):
        assert alice.post(f"{PAGE}/copy", form).status_code == 403
    assert asked == []


def test_a_viewer_may_not_look(people: People, client: Client) -> None:
    client.force_login(people.bob)

    assert client.get(PAGE, {"q": "topic:orders"}).status_code == 403
    assert client.get(f"{PAGE}/export.csv", {"q": "topic:orders"}).status_code == 403
    assert client.get(f"{PAGE}/copy", {"q": "topic:orders"}).status_code == 403
