"""Topics in the console: who may do what, what the forms do, what the list shows of many."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mqservice.accounts.models import AuditEntry, Member, Role, User
from mqservice.console.shared.figures import READERS_MAX
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import MAIN_SHARD
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample, TopicSample
from mqservice.store import GroupRef, blocking_client, encode_plain, new_message_id
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, put_topic
from tests.mqservice.console.reading import names, round_trips, text_of, why_not
from tests.mqservice.groups.reading import Reader
from tests.people import People

TOPICS = "/console/acme/topics"
FORM = {
    "name": "invoices",
    "type": "mixed",
    "queues": "2",
    "retention": "12h",
    "durability": "sync",
    "body_bytes_max": "65536",
}
FORMS = [
    "/console/acme/new-topic",
    f"{TOPICS}/orders/edit",
    f"{TOPICS}/orders/delete",
    f"{TOPICS}/orders/purge",
]


def make_topics(people: People, count: int) -> None:
    Topic.objects.bulk_create(
        Topic(namespace=people.acme, name=f"topic-{index:04}") for index in range(count)
    )


def add_member(people: People, username: str, role: Role) -> None:
    user = User.objects.create(username=username)
    Member.objects.create(tenant=people.acme.tenant, user=user, role=role)


def test_topic_is_created_changed_and_deleted_with_an_entry_each(
    people: People, engine: str, alice: Client
) -> None:
    made = alice.post("/console/acme/new-topic", FORM, follow=True)
    assert made.redirect_chain[-1][0] == f"{TOPICS}/invoices"
    assert b"The topic invoices was created." in made.content
    topic = Topic.objects.get(namespace=people.acme, name="invoices")
    assert (topic.queue_count, topic.retention_age_ms) == (2, 12 * 60 * 60 * 1000)

    change = FORM | {"queues": "3", "revision": "1"}
    assert alice.post(f"{TOPICS}/invoices/edit", change).status_code == 302
    topic.refresh_from_db()
    assert (topic.queue_count, topic.revision) == (3, 2)

    assert alice.post(f"{TOPICS}/invoices/delete", {"confirm": "invoices"}).status_code == 302
    assert not Topic.objects.filter(name="invoices").exists()
    entries = AuditEntry.objects.filter(tenant=people.acme.tenant, action__startswith="topic.")
    assert [(row.actor, row.action) for row in entries.order_by("id")] == [
        ("user:alice", "topic.put"),
        ("user:alice", "topic.put"),
        ("user:alice", "topic.delete"),
    ]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("name", "no blanks", "a name may contain only"),
        ("queues", "0", "greater than or equal to 1"),
        ("queues", "many", "whole number"),
        ("retention", "soon", "must be a duration such as"),
        ("retention", "1ms", "must be 1m to 30d long"),
        ("type", "other", "not one of the available choices"),
    ],
)
def test_fault_is_reported_at_its_field_and_nothing_is_made(
    engine: str, alice: Client, field: str, value: str, told: str
) -> None:
    answer = alice.post("/console/acme/new-topic", FORM | {field: value})
    assert answer.status_code == 422
    text = answer.content.decode()
    fault = text[text.index(f'id="id_{field}_error"') :]
    assert told in fault[:300]
    assert 'aria-invalid="true"' in text
    assert not Topic.objects.exists()


def test_topic_that_is_there_is_not_overwritten_by_a_new_one(
    people: People, engine: str, alice: Client
) -> None:
    put_topic(people.acme, "invoices", TopicChange(queue_count=8))
    answer = alice.post("/console/acme/new-topic", FORM)
    assert b"A topic with this name already exists" in answer.content
    assert Topic.objects.get(name="invoices").queue_count == 8


def test_change_on_top_of_someone_elses_is_refused(
    people: People, engine: str, alice: Client
) -> None:
    put_topic(people.acme, "invoices", TopicChange(queue_count=2))
    put_topic(people.acme, "invoices", TopicChange(queue_count=4))
    answer = alice.post(f"{TOPICS}/invoices/edit", FORM | {"queues": "8", "revision": "1"})
    assert b"Someone else has changed this topic" in answer.content
    assert Topic.objects.get(name="invoices").queue_count == 4


@pytest.mark.parametrize("typed", ["", "Orders", "order", "orders2"])
def test_topic_stays_unless_its_name_is_typed(
    people: People, engine: str, alice: Client, typed: str
) -> None:
    put_topic(people.acme, "orders", TopicChange())
    assert alice.post(f"{TOPICS}/orders/delete", {"confirm": typed}).status_code == 422
    assert Topic.objects.filter(name="orders").exists()


def test_viewer_is_told_why_not_and_refused_each(people: People, engine: str, bob: Client) -> None:
    put_topic(people.acme, "orders", TopicChange())
    seen = (
        text_of(bob, TOPICS)
        + text_of(bob, f"{TOPICS}/orders")
        + text_of(bob, "/console/acme/groups")
    )
    for word in ("new-topic", "/edit", "/delete"):
        assert word not in seen
    told = why_not(seen)
    assert {"New topic", "Edit", "Purge", "Delete", "Publish", "Alert on this"} <= set(told)
    assert set(told.values()) == {"Your role, viewer, may not do this. Ask an admin of the tenant."}
    for path in (*FORMS, f"{TOPICS}/orders/publish", f"{TOPICS}/orders/messages"):
        assert bob.get(path).status_code == 403
        assert bob.post(path, FORM | {"confirm": "orders"}).status_code in (403, 405)
    assert Topic.objects.filter(name="orders").exists()
    assert Topic.objects.count() == 1


@pytest.mark.parametrize("tab", ["topics/orders/messages", "tail?topic=orders"])
def test_viewer_opens_a_tab_and_is_told_which_role_it_needs_and_who_can_grant_it(
    people: People, engine: str, bob: Client, tab: str
) -> None:
    put_topic(people.acme, "orders", TopicChange())
    add_member(people, "dana", Role.ADMIN)
    add_member(people, "eve", Role.DEVELOPER)
    assert f'href="/console/acme/{tab}"' in text_of(bob, f"{TOPICS}/orders")

    answer = bob.get(f"/console/acme/{tab}")

    assert answer.status_code == 403
    text = " ".join(answer.content.decode().split())
    assert "<dt>Role needed</dt><dd>developer</dd> <dt>Your role</dt><dd>viewer</dd>" in text
    assert ">alice, dana</dd>" in text
    assert 'href="/console/acme/members"' in text


def test_only_a_few_of_many_admins_are_named(people: People, bob: Client) -> None:
    for number in range(9):
        add_member(people, f"admin{number}", Role.ADMIN)
    text = bob.get("/console/acme/new-topic").content.decode()
    assert ">admin0, admin1, admin2, admin3, admin4, …</dd>" in text


def test_stranger_finds_none_of_the_forms(people: People, client: Client) -> None:
    Topic.objects.create(namespace=people.acme, name="orders")
    client.force_login(people.charlie)
    for path in FORMS:
        assert client.get(path).status_code == client.post(path, FORM).status_code == 404
    assert Topic.objects.count() == 1


def test_own_form_cannot_reach_a_topic_of_another_namespace(people: People, alice: Client) -> None:
    Topic.objects.create(namespace=people.rival, name="theirs")
    assert alice.post(f"{TOPICS}/theirs/delete", {"confirm": "theirs"}).status_code == 404
    assert alice.get("/console/rival/topics").status_code == 404


def test_a_thousand_topics_are_paged_searched_and_found_again(
    people: People, engine: str, alice: Client
) -> None:
    make_topics(people, 1_000)
    first = names(alice, TOPICS)
    assert (first[0], len(first)) == ("topic-0000", 50)
    assert names(alice, f"{TOPICS}?after=topic-0049")[0] == "topic-0050"
    assert names(alice, f"{TOPICS}?before=topic-0050") == first
    assert len(names(alice, f"{TOPICS}?after=topic-0989")) == 10
    assert names(alice, f"{TOPICS}?q=77") == sorted(
        f"topic-{n:04}" for n in range(1_000) if "77" in f"{n:04}"
    )
    assert names(alice, f"{TOPICS}?after=gone") == first
    assert "951 to 1,000 of 1,000" in text_of(alice, f"{TOPICS}?after=topic-0949")


def test_list_is_sorted_by_what_is_known_and_has_the_rest_last(
    people: People, engine: str, alice: Client
) -> None:
    make_topics(people, 300)  # more than the engine is asked for one by one
    ConsumerGroup.objects.create(namespace=people.acme, name="readers")
    now_ms = SystemClock().now_ms()
    at_ms = now_ms - now_ms % SAMPLE_MS
    for step, count in ((1, 0), (0, 50)):
        TopicSample.objects.bulk_create(
            TopicSample(
                namespace=people.acme,
                topic=f"topic-{index:04}",
                resolution_ms=SAMPLE_MS,
                at_ms=at_ms - step * SAMPLE_MS,
                stored_last=count * index,
                readable_last=index,
            )
            for index in range(7)
        )
    GroupSample.objects.create(
        namespace=people.acme,
        group_name="readers",
        topic="topic-0002",
        resolution_ms=SAMPLE_MS,
        at_ms=at_ms,
        known_count=1,
        lag_last=40,
    )
    assert names(alice, f"{TOPICS}?sort=messages")[:3] == ["topic-0006", "topic-0005", "topic-0004"]
    assert names(alice, f"{TOPICS}?sort=rate")[:2] == ["topic-0006", "topic-0005"]
    assert names(alice, f"{TOPICS}?sort=lag")[:2] == ["topic-0002", "topic-0000"]
    text = text_of(alice, f"{TOPICS}?sort=lag")
    assert "<b>readers</b> 40" in text
    assert "30/s" in text  # 300 messages in 10 s
    assert 'aria-sort="descending"' in text


def test_topics_page_asks_no_more_of_a_thousand_topics(
    people: People, alice: Client, django_assert_max_num_queries: object
) -> None:
    make_topics(people, 1_000)
    with django_assert_max_num_queries(16):  # type: ignore[operator]  # pytest-django's
        assert alice.get(TOPICS).status_code == 200


def test_a_page_of_topics_asks_for_its_rows_alone_and_for_many_at_a_time(
    people: People, engine: str, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(people, 300)
    with (
        round_trips(monkeypatch) as together,
        CaptureQueriesContext(connection) as queries,
    ):
        assert len(names(alice, TOPICS)) == 50
    assert sum(together) >= 50
    assert len(together) <= 10
    (figures,) = [each["sql"] for each in queries if "sampling_topicsample" in each["sql"]]
    assert "topic-0049" in figures
    assert "topic-0050" not in figures


def test_of_many_groups_those_are_asked_for_that_samples_know_to_read_the_topic(
    people: People, reader: Reader, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.put(3)
    reader.receive(1)
    ConsumerGroup.objects.bulk_create(
        ConsumerGroup(namespace=people.acme, name=f"other-{index}") for index in range(READERS_MAX)
    )
    path = f"{TOPICS}/{reader.topic}"
    assert f"groups/{reader.group}" not in text_of(alice, path)  # not sampled yet
    now_ms = SystemClock().now_ms()
    GroupSample.objects.create(
        namespace=people.acme, group_name=reader.group, topic=reader.topic, lag_last=77,
        resolution_ms=SAMPLE_MS, at_ms=now_ms - now_ms % SAMPLE_MS, known_count=1,
    )  # fmt: skip
    with round_trips(monkeypatch) as together:
        text = text_of(alice, path)
    row = text.partition(f"groups/{reader.group}")[2].partition("</tr>")[0]
    (known,) = reader.store.group_stats(GroupRef(group=f"acme%{reader.group}")).topics
    assert f">{known.lag}<" in row
    assert ">77<" not in row
    assert sum(together) < 15
    assert "other-" not in text


def test_name_in_the_page_is_text(people: People, engine: str, alice: Client) -> None:
    script = "<script>alert(1)</script>"
    for path in (f"{TOPICS}?q={script}", f"/console/acme/search?q={script}"):
        assert script not in text_of(alice, path)


def test_list_and_page_say_how_large_a_topic_is(people: People, engine: str, alice: Client) -> None:
    assert alice.post("/console/acme/new-topic", FORM).status_code == 302
    record = encode_plain(
        topic="acme%invoices",
        queue_id=0,
        body=b"x" * 3_000,
        message_id=new_message_id(),
        born_timestamp_ms=1,
        born_host=("127.0.0.1", 1),
    )
    with blocking_client(MAIN_SHARD) as store:
        (stored,) = store.put([record])
    assert stored.error is None
    for path, label in (
        (TOPICS, 'data-label="Size">'),
        (f"{TOPICS}/invoices", "<dt>Size</dt><dd>"),
    ):
        text = text_of(alice, path)
        found = re.search(re.escape(label) + r"([\d.]+) KiB<", text)
        assert found, text[text.index(label) :][:200]
        assert 2.9 < float(found[1]) < 3.5


def test_size_is_unknown_while_the_engine_is_unavailable(people: People, alice: Client) -> None:
    make_topics(people, 1)
    assert 'data-label="Size">unknown<' in text_of(alice, TOPICS)
