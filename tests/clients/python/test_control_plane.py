"""The control plane: what is created, read, moved and deleted through it. Of both twins."""

from __future__ import annotations

import inspect
import os
import re
from datetime import UTC, datetime, timedelta

import pytest
from mqservice_client import (
    BadRequest,
    Client,
    Message,
    NotFound,
    PreconditionFailed,
    TopicNotFound,
    UsageError,
)
from mqservice_client.aio import resources as asynchronous
from mqservice_client.api_types import FilterIn
from mqservice_client.sync import resources as synchronous

from tests.clients.python.conftest import CONTRACT, Place
from tests.clients.resources import RESOURCES, operations
from tests.services import wait_until

pytestmark = pytest.mark.acceptance
WAIT = "20s"
NOW = datetime.now(UTC)


@pytest.fixture
def dead(mq: Client, place: Place) -> list[str]:
    """Three dead letters of a group, by the ids of their messages."""
    for number, tag in enumerate(("created", "created", "paid")):
        mq.send(place.topic, {"number": number}, tag=tag, keys=[f"order-{number}"])
    with mq.subscribe(*place) as subscription:
        messages = [taken(subscription.get(WAIT)) for _ in range(3)]
        for message in messages:
            message.dead_letter(f"no stock for {message.json()['number']}")
            message.confirmed(WAIT)
    wait_until(
        lambda: len(mq.dead_letters.list(place.group).messages) == 3, 20, "there are dead letters"
    )
    return [each.id for each in mq.dead_letters.iterate(place.group)]


def taken(message: Message | None) -> Message:
    assert message is not None
    return message


def test_a_topic_is_created_changed_listed_and_deleted(mq: Client) -> None:
    name = f"topic-{os.getpid()}-{id(mq)}"

    made = mq.topics.create(name, queues=2, retention=timedelta(hours=36), durability="sync")
    changed = mq.topics.create(name, queues=3)

    assert (made.name, made.queues, made.retention_ms) == (name, 2, 36 * 3_600_000)
    assert (changed.queues, changed.retention_ms) == (3, made.retention_ms)
    assert abs(made.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    read = mq.topics.get(name)
    assert [queue.max_offset for queue in read.queue_offsets or ()] == [0, 0, 0]
    assert [topic.name for topic in mq.topics.list(contains=name).topics] == [name]

    mq.topics.delete(name)

    with pytest.raises(TopicNotFound):
        mq.topics.get(name)


@CONTRACT
def test_a_change_of_what_somebody_else_has_changed_is_refused(mq: Client, place: Place) -> None:
    topic, group = mq.topics.get(place.topic), mq.groups.get(place.group)
    assert (topic.etag, group.etag) == ('"1"', '"1"')
    assert [each.etag for each in mq.topics.list(contains=place.topic).topics] == [None]

    changed = mq.topics.create(place.topic, retention="2d", if_match=topic.etag)
    same = mq.topics.create(place.topic, retention="2d", if_match=changed.etag)
    paused = mq.groups.pause(place.group, if_match=group.etag)

    assert changed.etag == same.etag == paused.etag == '"2"'
    for late in (
        lambda: mq.topics.create(place.topic, retention="1d", if_match=topic.etag),
        lambda: mq.topics.create(f"{place.topic}-new", if_match=topic.etag),
        lambda: mq.topics.delete(place.topic, if_match=topic.etag),
        lambda: mq.groups.create(place.group, max_attempts=3, if_match=group.etag),
        lambda: mq.groups.resume(place.group, if_match=group.etag),
        lambda: mq.groups.delete(place.group, if_match=group.etag),
    ):
        with pytest.raises(PreconditionFailed) as raised:
            late()
        assert (raised.value.status, raised.value.retryable) == (412, False)
    assert mq.topics.get(place.topic).retention_ms == 2 * 86_400_000
    mq.groups.delete(place.group, if_match=paused.etag)
    mq.topics.delete(place.topic, if_match=changed.etag)


def test_lists_are_iterated_page_by_page(mq: Client) -> None:
    stem = f"page-{os.getpid()}-{id(mq)}"
    names = [f"{stem}-{number}" for number in range(5)]
    for name in names:
        mq.topics.create(name, queues=1)

    found = [topic.name for topic in mq.topics.iterate(contains=stem, limit=2)]

    assert found == names


def test_a_group_keeps_its_settings_and_none_means_no_limit(mq: Client, place: Place) -> None:
    name = f"{place.group}-settings"

    made = mq.groups.create(
        name,
        lease="45s",
        max_attempts=None,
        retry={"policy": "exponential", "start": "2s", "factor": 3, "cap": "1m"},
    )

    assert (made.lease_ms, made.max_attempts) == (45_000, None)
    assert made.retry["policy"] == "exponential"
    assert mq.groups.create(name, max_attempts=4).lease_ms == 45_000
    assert mq.groups.pause(name).paused
    assert not mq.groups.resume(name).paused
    assert mq.groups.get(name).max_attempts == 4
    mq.groups.delete(name)
    with pytest.raises(NotFound):
        mq.groups.get(name)


def test_a_seek_can_be_previewed_and_then_moves_the_group(mq: Client, place: Place) -> None:
    for number in range(4):
        mq.send(place.topic, f"message {number}")
    with mq.subscribe(*place) as subscription:
        for _ in range(4):
            message = taken(subscription.get(WAIT))
            message.ack()
            message.confirmed(WAIT)
        [reader] = mq.groups.clients(place.group).topics[0].clients
        assert reader.inflight == 0

    preview = mq.groups.seek(place.group, place.topic, {"shift": -3}, dry_run=True)
    before = mq.groups.offsets(place.group).offsets[0].consumer_offset
    moved = mq.groups.seek(place.group, place.topic, {"time": NOW - timedelta(days=1)})
    after = mq.groups.offsets(place.group, topic=place.topic).offsets[0].consumer_offset

    assert preview.dry_run
    assert [queue.to_offset for queue in preview.queues] == [1]
    assert not moved.dry_run
    assert (before, after) == (4, 0)
    assert mq.groups.lag(place.group).lag == 4
    assert mq.groups.commit_offset(place.group, place.topic, 0, 3).from_offset == 0
    assert mq.groups.lag(place.group).ready == 1


def test_dead_letters_are_found_previewed_and_redriven(
    mq: Client, place: Place, dead: list[str]
) -> None:
    listed = mq.dead_letters.list(place.group, tag="created")
    one = mq.dead_letters.get(place.group, listed.messages[0].id)
    only_paid = FilterIn(tag="paid", since=NOW - timedelta(days=1))

    preview = mq.dead_letters.redrive(place.group, filter=only_paid, dry_run=True)
    task = mq.dead_letters.redrive(place.group, filter=only_paid)
    done = mq.tasks.wait(task.id, timeout=WAIT)

    assert len(listed.messages) == 2
    assert one.reason.startswith("no stock for")
    assert one.json(dict[str, int])["number"] in (0, 1)
    assert (preview.count, preview.is_complete) == (1, True)
    assert (done.state, done.moved, done.failed) == ("done", 1, 0)
    assert mq.tasks.get(task.id).state == "done"
    assert task.id in [each.id for each in mq.tasks.iterate(limit=50)]
    assert list(mq.tasks.iterate_failures(task.id)) == []
    with mq.subscribe(*place) as subscription:
        back = taken(subscription.get(WAIT))
        assert (back.tag, back.json()) == ("paid", {"number": 2})
        back.ack()
    gone = mq.dead_letters.purge(place.group, all=True)
    assert mq.tasks.wait(gone.id, timeout=WAIT).moved == 2
    assert list(mq.dead_letters.iterate(place.group)) == []


def test_a_task_that_runs_on_is_no_error_but_a_timeout(
    mq: Client, place: Place, dead: list[str]
) -> None:
    slow = mq.dead_letters.redrive(place.group, ids=dead, rate=1)

    with pytest.raises(TimeoutError, match="still runs"):
        mq.tasks.wait(slow.id, timeout="50ms")

    mq.tasks.cancel(slow.id)
    assert mq.tasks.wait(slow.id, timeout=WAIT).state in ("cancelled", "done")


def test_scheduled_messages_are_listed_moved_sent_and_cancelled(mq: Client, place: Place) -> None:
    handles = [
        mq.send(place.topic, body, delay="1h").recall_handle for body in ("late", "later", "never")
    ]
    late, later, never = (handle for handle in handles if handle is not None)

    assert sorted(each.content for each in mq.scheduled.iterate(place.topic, limit=1)) == [
        b"late", b"later", b"never",
    ]  # fmt: skip
    assert mq.scheduled.cancel(never).state == "cancelled"
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    moved = mq.scheduled.reschedule(later, deliver_at=tomorrow)
    assert abs(moved.deliver_at - tomorrow) < timedelta(seconds=1)
    assert mq.scheduled.reschedule(moved.recall_handle, delay=timedelta(hours=2)).state
    assert mq.scheduled.send(late).state == "sent"
    with mq.subscribe(*place) as subscription:
        message = taken(subscription.get(WAIT))
        assert message.text == "late"
        message.ack()
    assert [each.content for each in mq.scheduled.list(place.topic).messages] == [b"later"]
    assert place.topic in {each.topic for each in mq.scheduled.iterate_all()}


def test_a_schedule_sends_its_message_and_can_be_paused(mq: Client, place: Place) -> None:
    name = place.topic
    runs = mq.schedules.preview("0 9 * * mon-fri", time_zone="Europe/Berlin").next_runs

    made = mq.schedules.create(
        name,
        topic=place.topic,
        cron="0 9 * * *",
        message={"body_json": {"report": "daily"}, "tag": "report"},
    )
    sent = mq.schedules.send(name)

    assert len(runs) > 1
    assert made.message is not None
    assert made.message.json() == {"report": "daily"}
    assert mq.schedules.pause(name).state == "paused"
    assert mq.schedules.resume(name).state == "active"
    assert mq.schedules.get(name).cron == "0 9 * * *"
    assert name in {each.name for each in mq.schedules.iterate()}
    assert mq.messages.get(place.topic, sent.id).tag == "report"
    mq.schedules.delete(name)
    with pytest.raises(NotFound):
        mq.schedules.get(name)


def test_a_key_is_created_changed_rotated_and_revoked(mq: Client) -> None:
    made = mq.keys.create("for a test", ["consume"], expires_in="1d")

    assert made.expires_at is not None
    assert mq.keys.update(made.id, expires_at=None, scopes=["produce"]).expires_at is None
    assert mq.keys.get(made.id).scopes == ["produce"]
    again = mq.keys.rotate(made.id, overlap="1h")
    assert again.key != made.key
    assert mq.keys.get(made.id).former_secret is not None
    assert made.id in {key.id for key in mq.keys.iterate(limit=20)}
    assert mq.keys.revoke(made.id).state == "revoked"


def test_messages_are_browsed_found_and_traced(mq: Client, place: Place) -> None:
    stored = mq.send(place.topic, {"order": 7}, keys="order-7", tag="paid")
    mq.send(place.topic, bytes(range(256)))
    mq.send(place.topic, "text")

    bodies = [each.content for each in mq.messages.iterate(place.topic, limit=1)]
    [found] = mq.messages.browse(place.topic, key="order-7", since=NOW).messages

    assert sorted(bodies) == sorted([b'{"order":7}', bytes(range(256)), b"text"])
    assert found.id == stored.id
    assert mq.messages.get(place.topic, stored.id).json() == {"order": 7}
    assert mq.messages.trace(stored.id, topic=place.topic).events[0].event in ("born", "stored")
    assert [each.tag for each in mq.messages.pull(place.topic, 0, 0, max=1).messages] == ["paid"]
    assert mq.messages.offset_at_time(place.topic, 0, NOW).offset == 0
    assert mq.topics.rate_history(place.topic, since=NOW - timedelta(hours=1)).points is not None
    assert mq.groups.lag_history(place.group, until=datetime.now(UTC)).group == place.group


def test_a_purge_says_what_it_deletes(mq: Client, place: Place) -> None:
    mq.send(place.topic, "soon gone")

    assert mq.topics.purge(place.topic, dry_run=True).messages == 1
    assert mq.topics.purge(place.topic).messages == 1
    assert mq.topics.purge(place.topic).messages == 0


def test_issues_gather_dead_letters_by_their_cause(
    mq: Client, place: Place, dead: list[str]
) -> None:
    wait_until(
        lambda: place.group in {each.group for each in mq.issues.iterate()}, 60, "there is an issue"
    )

    [issue] = [each for each in mq.issues.iterate() if each.group == place.group]

    assert issue.reason == "no stock for <n>"
    assert mq.issues.get(issue.id).kind == "dead_letter"
    assert mq.issues.acknowledge(issue.id).state == "acknowledged"
    assert mq.issues.resolve(issue.id).state == "resolved"
    assert mq.issues.reopen(issue.id).state == "open"
    assert mq.issues.ignore(issue.id).state == "ignored"


def test_a_ticket_opens_a_socket_for_a_while(mq: Client) -> None:
    ticket = mq.tickets.create(scopes=["consume"])

    assert ticket.ticket
    assert ticket.expires_in_ms > 0


def test_what_makes_no_sense_is_refused_before_anything_is_sent(mq: Client) -> None:
    with pytest.raises(UsageError, match="time zone"):
        mq.messages.browse("orders", since=datetime(2026, 1, 1))  # noqa: DTZ001  # that is the fault
    with pytest.raises(UsageError, match="retention"):
        mq.topics.create("orders", retention=timedelta(days=-1))


def test_what_the_service_refuses_names_the_place(mq: Client, place: Place) -> None:
    with pytest.raises(BadRequest, match="queues") as caught:
        mq.topics.create(place.topic, queues=10_000)

    assert [pointer for pointer, _, _ in caught.value.errors] == ["/queues"]


def test_the_same_idempotency_key_is_executed_once(mq: Client, place: Place) -> None:
    mq.send(place.topic, "one")
    key = f"purge-{place.topic}"

    first = mq.topics.purge(place.topic, idempotency_key=key)
    mq.send(place.topic, "two")
    second = mq.topics.purge(place.topic, idempotency_key=key)

    assert second == first
    assert mq.topics.purge(place.topic, dry_run=True).messages == 1


def test_every_operation_has_the_same_method_on_both_sides() -> None:
    for resource in RESOURCES:
        one, other = getattr(asynchronous, f"Async{resource}"), getattr(synchronous, resource)
        wanted = {re.sub(r"(?=[A-Z])", "_", name).lower() for name in operations(resource)}
        assert wanted <= methods(one).keys()
        assert methods(one) == methods(other)
        for name in wanted:
            assert inspect.iscoroutinefunction(getattr(one, name))
            assert not inspect.iscoroutinefunction(getattr(other, name))


def methods(kind: type[object]) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in vars(kind).items()
        if not name.startswith("_")
    }
