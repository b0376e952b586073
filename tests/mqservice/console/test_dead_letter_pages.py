"""Dead letters in the console: what is counted, what may be done to them, by whom, and how far."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.console.shared import data_plane
from mqservice.console.shared.data_plane import DataPlaneResponse
from mqservice.groups.models import ConsumerGroup
from mqservice.issues.scanning import scan
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import PurgeRequest, blocking_client
from mqservice.tasks.models import Task, TaskState
from mqservice.tasks.steps import take_turn
from mqservice.topics.models import Topic
from tests.clock import ManualClock
from tests.mqservice.console.reading import text_of, why_not
from tests.mqservice.issues.failing import fail
from tests.mqservice.tasks.desk import Desk, numbered, open_desk
from tests.people import People

BASE = "/console/acme"
LETTERS = f"{BASE}/dead-letters"


def run(task: Task) -> None:
    """Let a worker do the task, which is due at once."""
    take_turn(task.public_id, ManualClock(now_ms=task.next_step_ms))
    task.refresh_from_db()
    assert task.state == TaskState.DONE


def test_groups_with_the_most_letters_come_first_without_those_that_are_gone(
    people: People, desk: Desk, alice: Client, bob: Client
) -> None:
    other = open_desk(people.acme)
    desk.give_up(*numbered(3))
    other.give_up(*numbered(5))
    with blocking_client(MAIN_SHARD) as client:
        scan(client, SystemClock())
        client.purge(PurgeRequest(group=other.group.engine_name, queue_offsets=[0, 1, 2]))
    text = text_of(alice, LETTERS)
    assert "5 messages dead-lettered by groups in acme" in text
    assert text.index(f'title="{desk.group.name}"') < text.index(f'title="{other.group.name}"')
    assert "no reason given" in text
    assert "3 of the newest 3" in text
    seen = text_of(bob, LETTERS)
    assert "5 messages" in seen
    assert "reason" not in seen  # a consumer's words are for those who may read messages
    assert f"{LETTERS}/{desk.group.name}" not in seen


def test_reasons_that_differ_in_numbers_are_one_cause_in_the_list_as_in_issues(
    desk: Desk, alice: Client
) -> None:
    slow = [f"lease ended after {number} s" for number in range(3)]
    fail(desk, "printer out of paper", *slow, "printer out of paper")
    with blocking_client(MAIN_SHARD) as client:
        scan(client, SystemClock())
    row = text_of(alice, LETTERS).split('data-label="Most common reason">')[1].split("</td>")[0]
    assert 'title="3 of the newest 5">lease ended after &lt;n&gt; s</a>' in row
    assert f'href="{LETTERS}/{desk.group.name}?reason=lease%20ended%20after%20%3Cn%3E%20s"' in row


def test_counts_are_unknown_and_not_zero_while_the_engine_is_unavailable(
    people: People, alice: Client
) -> None:
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    text = text_of(alice, LETTERS)
    assert "is not responding" in text
    assert 'data-label="Messages">unknown</td>' in text


def test_a_thousand_groups_are_counted_with_a_bounded_number_of_queries(
    people: People, desk: Desk, alice: Client, django_assert_max_num_queries: object
) -> None:
    ConsumerGroup.objects.bulk_create(
        ConsumerGroup(namespace=people.acme, name=f"group-{index:04}") for index in range(1_000)
    )
    desk.give_up(b"x")
    with django_assert_max_num_queries(12):  # type: ignore[operator]  # pytest-django's
        text = text_of(alice, LETTERS)
    assert "1 to 50 of 1,001" in text
    assert text.index(desk.group.name) < text.index("group-0000")
    assert "group-0049" in text_of(alice, f"{LETTERS}?skip=50")


def test_marked_letters_are_redriven_after_a_preview(desk: Desk, alice: Client) -> None:
    ids = desk.give_up(*numbered(4))
    path = f"{LETTERS}/{desk.group.name}/redrive"
    text = text_of(alice, f"{path}?id={ids[0]}&id={ids[2]}&id=01AB")
    assert "3 selected messages" in text
    assert "2 messages. Nothing has been changed yet." in text
    assert "1 of them is no longer a dead letter" in text
    assert not Task.objects.exists()

    made = alice.post(path, {"id": [ids[0], ids[2], "01AB"], "target": "", "rate": "500"})
    task = Task.objects.get()
    assert made.headers["Location"] == f"{BASE}/tasks/{task.public_id}"
    assert 'hx-trigger="every 1s"' in text_of(alice, made.headers["Location"])
    run(task)
    text = text_of(alice, made.headers["Location"])
    assert "every 1s" not in text
    assert [text.count(f">{word}<") for word in ("moved", "dead letter not found", "waiting")] == [
        2, 1, 0,
    ]  # fmt: skip
    part = alice.get(made.headers["Location"], headers={"HX-Request": "true"}).content.decode()
    assert part.startswith("<div id=")
    assert desk.taken() == [b"0", b"2"]
    entry = AuditEntry.objects.get(action="dead_letters.redrive")
    assert (entry.actor, entry.details["task"]) == ("user:alice", task.public_id)


def test_preview_is_repeated_for_another_target_and_changes_nothing(
    people: People, desk: Desk, alice: Client
) -> None:
    desk.give_up(*numbered(3), tag="a")
    desk.give_up(b"other", tag="b")
    desk.make_topic("elsewhere")
    path = f"{LETTERS}/{desk.group.name}/redrive"
    given = {"tag": "a", "target": "elsewhere", "rate": "5"}
    text = alice.post(path, given | {"preview": "1"}).content.decode()
    assert re.search('>elsewhere</span></th><td class="number[^>]*>3<', text)
    assert not Task.objects.exists()
    alice.post(path, given)
    task = Task.objects.get()
    assert (task.target, task.rate, task.selection) == ("elsewhere", 5, {"tags": ["a"]})


def test_letters_of_one_cause_are_redriven_together(desk: Desk, alice: Client) -> None:
    fail(desk, "order 1 late", "<b>", "order 22 late")
    path = f"{LETTERS}/{desk.group.name}/redrive"
    ahead = text_of(alice, f"{path}?reason=order+7+late")
    assert "2 messages. Nothing has been changed yet." in ahead
    assert "{&quot;filter&quot;:{&quot;reason&quot;:&quot;order 7 late&quot;}" in ahead
    alice.post(path, {"reason": "order 7 late", "target": "", "rate": "500"})
    task = Task.objects.get()
    run(task)
    assert task.moved_count == 2
    assert "order &lt;n&gt; late" in text_of(alice, f"{BASE}/tasks/{task.public_id}")


def test_page_of_a_reason_says_how_far_it_looked_and_hands_the_reason_on(
    desk: Desk, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(desk, "order 1 late", "order 22 late", "")
    asked: list[dict[str, str]] = []
    data: dict[str, object] = {
        "messages": [], "next_cursor": "next", "previous_cursor": None, "is_complete": True,
        "scanned": 8_192, "bar_ms": 0, "total": 0, "bars": [],
    }  # fmt: skip

    async def answered(*given: object) -> DataPlaneResponse:
        asked.append(given[5])  # type: ignore[arg-type]  # the query
        return DataPlaneResponse(status=200, data=data)

    monkeypatch.setattr(data_plane, "_call", answered)
    monkeypatch.setattr(data_plane, "_plane_of", lambda _request: None)
    path = f"{LETTERS}/{desk.group.name}"
    where = f"group%3A{desk.group.name}"
    search = f"{BASE}/messages?q={where}+reason%3A%22order+7+late%22"
    assert alice.get(f"{path}?reason=order+7+late")["Location"] == search
    text = text_of(alice, search)
    assert asked[0]["q"] == f'group:{desk.group.name} reason:"order 7 late"'
    assert "Searched 8,192 messages, 0 matching. There are more to search." in text
    assert f"{path}/redrive?reason=order+7+late" in text
    assert "Redrive all" not in text
    # Why they were given up, by cause; each leads to its letters.
    link = f'href="?q=group%3A{desk.group.name}%20reason%3A'
    assert f'{link}%22order%20%3Cn%3E%20late%22">order &lt;n&gt; late</a>' in text
    assert f'{link}%3Cnone%3E">no reason given</a>' in text

    data |= {"next_cursor": None, "scanned": 3}
    text = text_of(alice, f"{BASE}/messages?q={where}+reason:another")
    assert "Searched all 3 messages, 0 matching." in text
    assert f"{path}/redrive" not in text.split("<main")[1].split("<form")[0]  # nothing to move


def test_letters_of_a_time_are_chosen_with_the_zone_of_the_form(desk: Desk, alice: Client) -> None:
    desk.give_up(b"x")
    path = f"{LETTERS}/{desk.group.name}/redrive"
    assert "1 message. Nothing" in text_of(
        alice, f"{path}?from=2020-01-01T00:00&to=2999-01-01T00:00"
    )
    assert "Nothing to do" in text_of(alice, f"{path}?from=2999-01-01T00:00:00")
    alice.post(path, {"from": "2020-01-01T00:00", "tag": "a"})
    assert Task.objects.get().selection == {"from_ms": 1_577_836_800_000, "tags": ["a"]}


def test_topic_that_is_gone_is_reported_before_anything_is_moved(desk: Desk, alice: Client) -> None:
    desk.give_up(b"x")
    Topic.objects.all().delete()
    text = text_of(alice, f"{LETTERS}/{desk.group.name}/redrive?all=1")
    assert "does not exist: would not be moved" in text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "No messages selected"),
        ({"all": "0"}, "No messages selected"),
        ({"all": "1", "target": "absent"}, "absent does not exist"),
        ({"all": "1", "rate": "0"}, "greater than or equal to 1"),
        ({"all": "1", "rate": "1000000"}, "must be in [1, 5000]"),
        ({"from": "yesterday"}, "not an RFC 3339 time"),
        ({"from": "2026-11-22T10:00", "to": "2026-11-22T09:00"}, "before from"),
        ({"key": "a b"}, "white space"),
        ({"id": "\x00"}, "should match pattern"),
    ],
)
def test_order_that_is_not_right_makes_no_task(
    desk: Desk, alice: Client, given: dict[str, str], told: str
) -> None:
    desk.give_up(b"x")
    answer = alice.post(f"{LETTERS}/{desk.group.name}/redrive", given)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not Task.objects.exists()


def test_letters_are_deleted_once_the_groups_name_was_typed(desk: Desk, alice: Client) -> None:
    desk.give_up(*numbered(2))
    path = f"{LETTERS}/{desk.group.name}/purge"
    assert "2 messages. Nothing has been changed yet." in text_of(alice, f"{path}?all=1")
    for typed in ("", desk.group.name.upper(), "x"):
        assert alice.post(path, {"all": "1", "confirm": typed}).status_code == 422
    assert alice.post(path, {"confirm": desk.group.name}).status_code == 422  # nothing chosen
    assert not Task.objects.exists()
    assert alice.post(path, {"all": "1", "confirm": desk.group.name}).status_code == 302
    run(Task.objects.get())
    assert desk.dead() == []
    assert "disabled>" in text_of(alice, f"{path}?all=1")


def test_task_is_cancelled_and_listed(desk: Desk, alice: Client, bob: Client) -> None:
    desk.give_up(b"x")
    alice.post(f"{LETTERS}/{desk.group.name}/redrive", {"all": "1"})
    task = Task.objects.get()
    path = f"{BASE}/tasks/{task.public_id}"
    seen = text_of(bob, path)
    assert "Cancel task" in why_not(seen)
    assert "/cancel" not in seen
    assert bob.post(f"{path}/cancel").status_code == 403
    assert (
        "Cancelled. Messages already moved"
        in alice.post(f"{path}/cancel", follow=True).content.decode()
    )
    task.refresh_from_db()
    assert task.state == TaskState.CANCELLED
    assert task.public_id in text_of(bob, f"{BASE}/tasks")
    assert task.public_id in text_of(alice, f"{BASE}/tasks")


def test_viewer_and_stranger_are_refused_each_page_that_does_something(
    people: People, desk: Desk, bob: Client, client: Client
) -> None:
    desk.give_up(b"x")
    group, topic = desk.group.name, desk.topic.name
    own = f"{LETTERS}/{group}"
    paths = [
        own, f"{own}/redrive?all=1", f"{own}/purge?all=1", f"{own}/messages/01AB",
        f"{BASE}/messages", f"{BASE}/messages/export.csv?q=group:{group}",
        f"{own}/messages/01AB/body", f"{BASE}/scheduled", f"{BASE}/scheduled/{topic}",
        f"{BASE}/traces", f"{BASE}/traces/01AB",
    ]  # fmt: skip
    given = {"all": "1", "confirm": group, "cancel": "1", "handle": "rc_x"}
    for path in paths:
        assert bob.get(path).status_code == 403
        assert bob.post(path, given).status_code in (403, 405)
    seen = text_of(bob, LETTERS) + text_of(bob, f"{BASE}/tasks")
    for word in ("redrive?", "/purge", "/export", "/scheduled", "/traces"):
        assert word not in seen
    client.force_login(people.charlie)
    for path in [*paths, LETTERS, f"{BASE}/tasks"]:
        assert client.get(path).status_code == 404
        assert client.post(path, given).status_code in (404, 405)
    assert not Task.objects.exists()


def test_tasks_and_groups_of_others_are_not_found(
    people: People, desk: Desk, alice: Client
) -> None:
    theirs = open_desk(people.rival)
    theirs.give_up(b"x")
    task = theirs.order()
    for path in (f"{BASE}/tasks/{task.public_id}", f"{LETTERS}/{theirs.group.name}/redrive?all=1"):
        assert alice.get(path).status_code == 404
    assert alice.post(f"{BASE}/tasks/{task.public_id}/cancel").status_code == 404
    assert alice.get(f"{BASE}/tasks?before={task.public_id}").status_code == 404
    assert theirs.group.name not in text_of(alice, LETTERS)
