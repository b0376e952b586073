"""Groups in the console: who may do what, what the forms do, what the pages tell."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mqservice.accounts.models import AuditEntry, Role
from mqservice.accounts.services import set_role
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, put_group
from mqservice.lib.clock import SystemClock
from mqservice.masking.models import MaskRule
from mqservice.protocol.choices import AssignmentStrategy, Dispatch
from mqservice.sampling.limits import SAMPLE_MS
from mqservice.sampling.models import GroupSample
from mqservice.store import AssignmentPolicy, ReceiveRequest
from tests.mqservice.console.reading import names, round_trips, text_of, why_not
from tests.mqservice.groups.reading import Reader
from tests.people import People

GROUPS = "/console/acme/groups"
FORM = {
    "name": "billing",
    "dispatch": "shared",
    "start_from": "earliest",
    "start_time": "",
    "batch_per_group": "1",
    "lease": "30s",
    "consume_timeout": "1h",
    "max_attempts": "5",
    "retry": "levels",
    "delays": "",
    "retry_start": "1s",
    "factor": "2",
    "cap": "1h",
    "strategy": "AVG",
    "assignment": "",
}
FORMS = [
    "/console/acme/new-group",
    *(f"{GROUPS}/billing/{verb}" for verb in ("edit", "delete", "reset")),
]


def make_groups(people: People, count: int) -> None:
    ConsumerGroup.objects.bulk_create(
        ConsumerGroup(namespace=people.acme, name=f"group-{index:04}") for index in range(count)
    )


def test_group_is_created_changed_paused_and_deleted_with_an_entry_each(
    people: People, engine: str, alice: Client
) -> None:
    made = alice.post("/console/acme/new-group", FORM, follow=True)
    assert made.redirect_chain[-1][0] == f"{GROUPS}/billing"
    assert b"The group billing was created." in made.content
    group = ConsumerGroup.objects.get(namespace=people.acme, name="billing")
    assert (group.lease_ms, group.max_reconsume_times) == (30_000, 4)

    listed = {"retry": "list", "delays": "10s, 1m", "max_attempts": "", "ordered": "on"}
    change = FORM | listed | {"revision": "1"}
    assert alice.post(f"{GROUPS}/billing/edit", change).status_code == 302
    group.refresh_from_db()
    assert group.retry["delays_ms"] == [10_000, 60_000]
    assert (group.max_reconsume_times, group.is_ordered, group.revision) == (-1, True, 2)
    assert 'value="10s, 1m"' in text_of(alice, f"{GROUPS}/billing/edit")

    for paused in ("1", "0"):
        alice.post(f"{GROUPS}/billing/pause", {"paused": paused})
        group.refresh_from_db()
        assert group.is_paused is (paused == "1")
    assert alice.post(f"{GROUPS}/billing/delete", {"confirm": "billing"}).status_code == 302
    assert not ConsumerGroup.objects.filter(name="billing").exists()
    entries = AuditEntry.objects.filter(tenant=people.acme.tenant, action__startswith="group.")
    assert [(row.actor, row.action) for row in entries.order_by("id")] == [
        *[("user:alice", "group.put")] * 4,
        ("user:alice", "group.delete"),
    ]


def test_broadcast_group_is_made_of_the_form_as_it_stands(engine: str, alice: Client) -> None:
    alice.post("/console/acme/new-group", FORM | {"dispatch": "broadcast", "retry": "list"})
    group = ConsumerGroup.objects.get(name="billing")
    assert (group.dispatch, group.max_reconsume_times) == ("broadcast", 16)


def test_a_page_of_groups_asks_for_its_rows_alone_and_for_many_at_a_time(
    people: People, engine: str, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_groups(people, 300)
    with (
        round_trips(monkeypatch) as together,
        CaptureQueriesContext(connection) as queries,
    ):
        assert len(names(alice, GROUPS)) == 50
    assert sum(together) >= 50
    assert len(together) <= 10
    sampled = [each["sql"] for each in queries if "sampling_" in each["sql"]]
    figures = [sql for sql in sampled if "settled_last" in sql and "dead_last" in sql]
    assert len(figures) == 1
    assert "group-0049" in figures[0]
    assert "group-0050" not in figures[0]
    assert not any("sampling_topicsample" in sql for sql in sampled)


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"name": "no blanks"}, "name", "a name may contain only"),
        ({"lease": "soon"}, "lease", "duration"),
        ({"lease": "1ms"}, "lease", "1ms"),
        ({"max_attempts": "0"}, "max_attempts", "greater than or equal to 1"),
        ({"start_from": "timestamp"}, "start_time", "give the time"),
        (
            {"start_from": "timestamp", "start_time": "yesterday"},
            "start_time",
            "must be a time such as",
        ),
        ({"retry": "list", "delays": "10s, later"}, "delays", "duration"),
        ({"retry": "exponential", "cap": "1ms"}, "cap", "must not be less than start"),
        ({"strategy": "CONFIG", "assignment": "{"}, "assignment", "not valid JSON"),
        ({"assignment": '{"other": 1}'}, "assignment", "unknown field"),
    ],
)
def test_fault_is_reported_at_its_field_and_nothing_is_made(
    engine: str, alice: Client, change: dict[str, str], field: str, told: str
) -> None:
    answer = alice.post("/console/acme/new-group", FORM | change)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert told in text[text.index(f'id="id_{field}_error"') :][:300]
    assert not ConsumerGroup.objects.exists()


def test_change_on_top_of_someone_elses_is_refused(
    people: People, engine: str, alice: Client
) -> None:
    put_group(people.acme, "billing", GroupChange())
    put_group(people.acme, "billing", GroupChange(lease_ms=10_000))
    answer = alice.post(f"{GROUPS}/billing/edit", FORM | {"revision": "1"})
    assert b"Someone else has changed this group" in answer.content
    assert ConsumerGroup.objects.get(name="billing").lease_ms == 10_000


def test_viewer_is_told_why_not_and_refused_each(people: People, engine: str, bob: Client) -> None:
    put_group(people.acme, "billing", GroupChange())
    seen = text_of(bob, GROUPS) + text_of(bob, f"{GROUPS}/billing")
    for word in ("new-group", "/edit", "/delete", "/pause", "/reset"):
        assert word not in seen
    assert {"New group", "Delete", "Reset offsets", "Edit", "Pause"} <= set(why_not(seen))
    for path in FORMS:
        assert bob.get(path).status_code == 403
        assert bob.post(path, FORM | {"confirm": "billing"}).status_code == 403
    assert bob.post(f"{GROUPS}/billing/pause", {"paused": "1"}).status_code == 403
    assert ConsumerGroup.objects.filter(name="billing", is_paused=False).count() == 1


def test_stranger_finds_none_of_it(people: People, client: Client) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    client.force_login(people.charlie)
    for path in (*FORMS, GROUPS, f"{GROUPS}/billing"):
        assert client.get(path).status_code == 404
    assert client.post(f"{GROUPS}/billing/pause", {"paused": "1"}).status_code == 404


def test_a_thousand_groups_are_paged_searched_and_sorted_at_a_bounded_cost(
    people: People, alice: Client, django_assert_max_num_queries: object
) -> None:
    make_groups(people, 1_000)
    now_ms = SystemClock().now_ms()
    GroupSample.objects.bulk_create(
        GroupSample(
            namespace=people.acme, group_name=f"group-{index:04}", topic="", known_count=1,
            resolution_ms=SAMPLE_MS, at_ms=now_ms - now_ms % SAMPLE_MS, lag_last=index,
            member_last=0,
        )
        for index in range(3)
    )  # fmt: skip
    with django_assert_max_num_queries(18):  # type: ignore[operator]  # pytest-django's
        first = names(alice, GROUPS)
    assert (first[0], len(first)) == ("group-0000", 50)
    assert names(alice, f"{GROUPS}?after=group-0049")[0] == "group-0050"
    assert names(alice, f"{GROUPS}?before=group-0050") == first
    assert names(alice, f"{GROUPS}?q=0077") == ["group-0077"]
    assert names(alice, f"{GROUPS}?sort=lag")[:3] == ["group-0002", "group-0001", "group-0000"]
    assert names(alice, f"{GROUPS}?dispatch=exclusive") == []
    assert "951 to 1,000 of 1,000" in text_of(alice, f"{GROUPS}?after=group-0949")


def test_group_shows_its_queues_its_consumer_and_what_it_holds(
    alice: Client, reader: Reader
) -> None:
    assert ": no consumers" not in text_of(alice, f"{GROUPS}/{reader.group}")
    reader.receive(2)
    text = text_of(alice, f"{GROUPS}/{reader.group}")
    assert f'<a href="/console/acme/topics/{reader.topic}">{reader.topic}</a>' in text
    assert "<b>In flight</b> 2" in text
    assert "no consumer is requesting messages" in text
    reader.receive(100)
    assert "all remaining messages are in flight" in text_of(alice, f"{GROUPS}/{reader.group}")


def test_group_tells_why_nothing_comes(people: People, alice: Client, reader: Reader) -> None:
    put_group(people.acme, reader.group, GroupChange(is_paused=True))
    assert "The group is paused" in text_of(alice, f"{GROUPS}/{reader.group}")
    put_group(people.acme, "new", GroupChange())
    assert "No topic has been read yet" in text_of(alice, f"{GROUPS}/new")


def test_filter_that_matches_nothing_is_named(alice: Client, reader: Reader) -> None:
    poll(reader, member_id="m", tags="nothing || at-all")
    text = text_of(alice, f"{GROUPS}/{reader.group}")
    assert "read with the filter at-all || nothing" in text
    assert "All messages are settled" in text


def test_a_filter_that_names_a_hidden_property_is_not_reported(
    people: People, alice: Client, reader: Reader
) -> None:
    poll(reader, member_id="m", tags="nothing || at-all")
    for role, is_told in ((Role.ADMIN, False), (Role.OWNER, True)):
        fields = {"topics": "*", "part": "property", "path": "nothing", "clear_for": "owner"}
        MaskRule.objects.get_or_create(namespace=people.acme, name="rule", defaults=fields)
        set_role(people.acme.tenant, people.alice, role)
        text = text_of(alice, f"{GROUPS}/{reader.group}")
        assert ("at-all || nothing" in text) == is_told
        assert ("a condition on a hidden property" in text) != is_told


def test_ordered_group_names_who_holds_the_batch(
    people: People, alice: Client, reader: Reader
) -> None:
    put_group(people.acme, reader.group, GroupChange(dispatch=Dispatch.EXCLUSIVE, is_ordered=True))
    poll(reader, member_id="consumer-worker-1", tags="*")
    text = text_of(alice, f"{GROUPS}/{reader.group}")
    assert "is waiting for its current batch" in text
    assert "when the batch leased by worker-1 (1) is settled" in text


def test_queue_that_nobody_is_assigned_is_named(
    people: People, alice: Client, reader: Reader
) -> None:
    policy = AssignmentPolicy(consumers={"consumer-worker-1": (0,)})
    put_group(
        people.acme,
        reader.group,
        GroupChange(
            dispatch=Dispatch.EXCLUSIVE, strategy=AssignmentStrategy.CONFIG, assignment=policy
        ),
    )
    poll(reader, member_id="consumer-worker-1", tags="*")
    assert "queue 1 has no consumer" in text_of(alice, f"{GROUPS}/{reader.group}")


def poll(reader: Reader, *, member_id: str, tags: str) -> None:
    reader.store.receive(
        ReceiveRequest(
            group=f"acme%{reader.group}", topic=f"acme%{reader.topic}", member_id=member_id,
            messages_max=1, bytes_max=10_000, wait_ms=0, lease_ms=60_000, filter=tags,
        )
    )  # fmt: skip


def test_no_engine_is_reported_and_nothing_is_made_up(
    people: People, alice: Client, settings: object
) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    text = text_of(alice, f"{GROUPS}/billing")
    assert "The storage engine is not responding" in text
    assert '<span data-live="g:billing:lag">unknown</span>' in text
