"""Pages of a namespace: for members, for strangers, with and without an engine."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from django.test import Client, RequestFactory
from django.utils import translation
from django.views.defaults import server_error

from mqservice.accounts.models import User
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, put_group
from mqservice.store import Nack, SettleRequest, StoreClient
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, put_topic
from tests.mqservice.groups.reading import Reader
from tests.people import People

PAGES = [
    "/console/acme/",
    "/console/acme/topics",
    "/console/acme/quick-start",
    "/console/acme/members",
    "/console/acme/alerts",
    "/console/acme/schedules",
    "/console/acme/usage",
    "/console/acme/search?q=o",
    "/console/acme/dead-letters",
    "/console/acme/tasks",
    "/console/acme/charts/rates?span=24h",
]
HTML_PAGES = PAGES[:-1]
# What a page under the content policy must do without; scripts are files of our own.
OWN_FILE = r'<script(?! src="/static/[a-z0-9_./-]+(\?v=[0-9a-f]+)?"[^>]*></script>)'
INLINE = re.compile(rf"{OWN_FILE}|<style|\sstyle=|\son[a-z]+=|javascript:", re.IGNORECASE)


@pytest.mark.parametrize("path", HTML_PAGES)
def test_members_see_each_page(people: People, client: Client, path: str) -> None:
    for member in (people.alice, people.bob):
        client.force_login(member)
        response = client.get(path)
        assert response.status_code == 200
        assert response["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", PAGES)
def test_stranger_cannot_tell_a_foreign_namespace_from_an_absent_one(
    people: People, client: Client, path: str
) -> None:
    client.force_login(people.charlie)
    foreign = client.get(path)
    absent = client.get(path.replace("acme", "nobody"))
    assert foreign.status_code == absent.status_code == 404
    assert foreign.content == absent.content


@pytest.mark.parametrize("path", PAGES)
def test_who_is_not_signed_in_is_led_to_the_login(db: None, client: Client, path: str) -> None:
    assert client.get(path).headers["Location"] == f"/account/login/?next={quote(path)}"


@pytest.mark.parametrize("path", [*HTML_PAGES, "/account/", "/errors/not-found", "/console/x/"])
def test_pages_need_nothing_that_the_content_policy_forbids(alice: Client, path: str) -> None:
    response = alice.get(path, follow=True)
    assert INLINE.search(response.content.decode()) is None
    assert "script-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]


def test_lists_show_what_has_not_been_used_yet(people: People, engine: str, alice: Client) -> None:
    put_topic(people.acme, "seen", TopicChange(queue_count=2))
    put_group(people.acme, "watchers", GroupChange())
    assert "seen" in client_text(alice, "/console/acme/topics")
    text = client_text(alice, "/console/acme/groups")
    assert "watchers" in text
    assert 'data-live="g:watchers:health" data-live-tone="g:watchers:tone">new<' in text


def test_what_waits_for_a_retry_counts_for_its_topic(
    people: People, engine: str, alice: Client, api: Callable[[str], Client]
) -> None:
    with StoreClient(engine, client_name="test") as store:
        reader = Reader(api(people.acme_key), store)
        reader.put(3)
        failed = reader.receive(1)
        nack = Nack(
            topic=f"acme%{reader.topic}",
            queue_id=0,
            lease_generation=failed.head.lease_generation,
            queue_offset=0,
            delay_ms=0,
        )
        store.settle(SettleRequest(group=f"acme%{reader.group}", nacks=[nack]))
        again = reader.receive(100, wait_ms=30_000)  # the other two; then the retry
        again = again if len(again.records) == 3 else reader.receive(100, wait_ms=30_000)
        assert again.records[-1].topic == f"%RETRY%acme%{reader.group}"
    text = client_text(alice, "/console/acme/groups")
    assert "RETRY" not in text
    assert f'data-live="g:{reader.group}:lag">3<' in text
    assert f'data-live="g:{reader.group}:inflight">3<' in text
    listed = client_text(alice, "/console/acme/topics")
    assert f"<b>{reader.group}</b> 3" in listed


def test_numbers_are_unknown_and_not_zero_while_the_engine_is_unavailable(
    people: People, alice: Client
) -> None:
    Topic.objects.create(namespace=people.acme, name="orders")
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    text = alice.get("/console/acme/").content.decode()
    assert "is not responding" in text
    assert text.count("unknown") >= 4
    for key in ("in", "out", "lag", "oldest", "readable", "dead"):
        assert f'<span data-live="{key}">unknown</span>' in text
    listed = client_text(alice, "/console/acme/topics")
    assert '<span data-live="t:orders:messages">unknown</span>' in listed


def client_text(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def test_empty_namespace_says_what_to_do(alice: Client) -> None:
    assert "No topics yet" in client_text(alice, "/console/acme/topics")
    assert "No consumer groups yet" in client_text(alice, "/console/acme/groups")


def test_other_tenants_names_are_on_no_page(people: People, alice: Client) -> None:
    Topic.objects.create(namespace=people.rival, name="their-topic")
    ConsumerGroup.objects.create(namespace=people.rival, name="their-group")
    for path in PAGES:
        text = alice.get(path).content.decode()
        assert "rival" not in text
        assert "their-" not in text


def test_quick_start_carries_the_base_url_and_no_secret(people: People, alice: Client) -> None:
    text = alice.get("/console/acme/quick-start").content.decode()
    assert "MQ_BASE_URL=http://" in text
    assert "/v1/ns/acme/topics/orders/messages" in text
    assert "MQ_NAMESPACE=acme" in text
    assert people.acme_key[4:12] in text  # the public id says which key is meant
    assert people.acme_key[12:] not in text


def test_quick_start_names_the_topic_and_group_that_are_there(
    people: People, alice: Client
) -> None:
    Topic.objects.create(namespace=people.acme, name="parcels")
    ConsumerGroup.objects.create(namespace=people.acme, name="senders")
    page = html.unescape(alice.get("/console/acme/quick-start").content.decode())
    text = page[page.index("<main") : page.index("</main>")]
    assert 'mq.send("parcels"' in text
    assert 'mq.subscribe("parcels", { group: "senders" })' in text
    assert "/v1/ns/acme/topics/parcels/groups/senders:receive" in text
    assert "orders" not in text
    assert "billing" not in text


def test_quick_start_prefers_what_the_documentation_names_and_never_shows_a_broadcast_group(
    people: People, alice: Client
) -> None:
    """Members of a broadcast group need a client_id, which the commands do not have."""
    for name in ("archive", "orders"):
        Topic.objects.create(namespace=people.acme, name=name)
    ConsumerGroup.objects.create(namespace=people.acme, name="all-of-them", dispatch="broadcast")
    path = "/console/acme/quick-start"
    assert "consume orders --group billing" in alice.get(path).content.decode()
    ConsumerGroup.objects.create(namespace=people.acme, name="senders")
    assert "consume orders --group senders" in alice.get(path).content.decode()
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    assert "consume orders --group billing" in alice.get(path).content.decode()


def test_user_without_a_tenant_is_told_so(db: None, client: Client) -> None:
    client.force_login(User.objects.create_user("dora"))
    assert b"not a member of any tenant" in client.get("/console/").content


@pytest.mark.parametrize(
    "path",
    [
        "topics?q=%00",
        "topics/a%00b",
        "audit?actor=%00",
        "keys/%00",
        "quick-start/arrived?topic=%00&since=1",
    ],
)
def test_nul_is_the_name_of_nothing(alice: Client, path: str) -> None:
    assert alice.get(f"/console/acme/{path}").status_code == 404


def test_page_of_a_fault_of_ours_needs_nothing_but_its_template() -> None:
    for language, word in (("en", "Something went wrong"), ("zh-hans", "出错了")):
        with translation.override(language):
            answer = server_error(RequestFactory().get("/console/acme/"))
        text = answer.content.decode()
        assert answer.status_code == 500
        assert word in text
        assert f'<html lang="{language}"' in text
        assert "/static/build/console.css?v=" in text
        assert INLINE.search(text) is None


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/account/login/", "登录"),
        ("/account/password/reset/", "重置密码"),
        ("/account/", "您的账户"),
        ("/account/factors/", "两步验证"),
        ("/account/sessions/", "会话"),
        ("/console/acme/audit", "审计"),
    ],
)
def test_pages_speak_the_readers_language(
    people: People, client: Client, path: str, word: str
) -> None:
    if path not in ("/account/login/", "/account/password/reset/"):
        client.force_login(people.alice)
    answer = client.get(path, HTTP_ACCEPT_LANGUAGE="zh-CN,zh;q=0.9")
    assert answer.status_code == 200
    assert word in answer.content.decode()
    assert '<html lang="zh-hans"' in answer.content.decode()


@pytest.mark.parametrize("path", PAGES)
def test_pages_only_read(alice: Client, path: str) -> None:
    assert alice.post(path).status_code == 405
