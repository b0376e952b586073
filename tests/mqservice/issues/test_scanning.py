"""Dead letters become issues: counted once each, bounded, reopened when they come again."""

from __future__ import annotations

import pytest

from mqservice.issues import limits, recording, scanning
from mqservice.issues.models import Issue, IssueBook, IssueState, ScanPlace
from mqservice.issues.retention import delete_old, resolve_quiet
from mqservice.issues.services import Verb, change_issue
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import GroupConfig, GroupRef, blocking_client
from tests.clock import ManualClock
from tests.mqservice.issues.failing import counts, drop, fail, redrive_all, tick, tick_group
from tests.mqservice.tasks.desk import Desk, open_desk


def book(desk: Desk) -> IssueBook:
    return IssueBook.objects.get(namespace=desk.namespace)


def only_issue(desk: Desk) -> Issue:
    return Issue.objects.get(namespace=desk.namespace, group_name=desk.group.name)


def test_letters_with_one_cause_are_one_issue(desk: Desk) -> None:
    # Given
    ids = fail(desk, "order 1 timed out", "order 2 timed out", "no stock", "order 3 timed out", "")
    # When
    assert tick(desk).is_complete
    # Then
    assert counts(desk) == {"order <n> timed out": 3, "no stock": 1, "": 1}
    issue = Issue.objects.get(reason="order <n> timed out")
    assert (issue.state, issue.kind, issue.topic) == ("open", "dead_letter", desk.topic.name)
    assert issue.sample == "order 3 timed out"
    assert [each["id"] for each in issue.examples] == [ids[3], ids[1], ids[0]]
    assert issue.first_ms <= issue.last_ms == issue.examples[0]["at_ms"]
    assert sum(issue.hours.values()) == 3
    assert list(issue.events.values_list("number", "state", "why", "actor")) == [
        (1, "open", "first", "")
    ]


def test_further_ticks_count_only_what_is_new(desk: Desk) -> None:
    fail(desk, "a", "b")
    tick(desk)
    assert tick(desk).letter_count == 0
    fail(desk, "a")
    assert tick(desk).letter_count == 1
    assert counts(desk) == {"a": 2, "b": 1}
    assert Issue.objects.get(reason="a").event_count == 1


def test_letters_that_were_redriven_or_dropped_meanwhile_are_counted(desk: Desk) -> None:
    fail(desk, "a", "b")
    redrive_all(desk)
    fail(desk, "a", "b")  # the redriven ones again
    drop(desk, range(4))
    tick(desk)
    assert sum(counts(desk).values()) == 4
    assert book(desk).unseen_count == 0


def test_a_group_beyond_its_batches_continues_in_the_next_tick(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BATCH_LETTERS", 2)
    monkeypatch.setattr(scanning, "BATCHES_MAX", 2)
    fail(desk, *"aabba")
    first = tick(desk)
    assert (first.letter_count, first.is_complete) == (4, False)
    assert counts(desk) == {"a": 2, "b": 2}
    assert tick(desk).is_complete
    assert counts(desk) == {"a": 3, "b": 2}


def test_a_tick_ends_at_its_limit_and_who_waits_longest_is_next(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BATCH_LETTERS", 1)
    monkeypatch.setattr(scanning, "BATCHES_MAX", 1)
    monkeypatch.setattr(scanning, "SCANNED_MAX", 1)
    other = open_desk(desk.namespace)
    fail(desk, "a", "a")
    fail(other, "b", "b")
    seen = []
    for _ in range(4):
        assert tick(desk).letter_count == 1
        desk.clock.advance(1)
        seen.append((counts(desk).get("a", 0), counts(other).get("b", 0)))
    assert sorted(seen[1]) == [1, 1], "each group had its turn"
    assert seen[3] == (2, 2)


def test_what_went_before_it_was_counted_is_reported(desk: Desk) -> None:
    # Given a group that was counted up to 1, whose letters 1 and 2 have gone since
    fail(desk, "a")
    tick(desk)
    fail(desk, "b", "b")
    lose_letters(desk)
    fail(desk, "c")
    # When
    tick(desk)
    # Then
    assert counts(desk) == {"a": 1, "c": 1}
    assert book(desk).unseen_count == 2
    assert book(desk).unseen_ms == desk.clock.now_ms()
    assert tick(desk).letter_count == 0


def lose_letters(desk: Desk) -> None:
    """The DLQ begins at its end, as after retention: the group was deleted and made anew."""
    with blocking_client(MAIN_SHARD) as client:
        client.group_delete(GroupRef(group=desk.group.engine_name))
        client.group_put(GroupConfig(group=desk.group.engine_name))


def test_what_a_group_lost_before_it_was_ever_checked_is_no_gap(desk: Desk) -> None:
    # Given
    fail(desk, "a", "a")
    lose_letters(desk)
    # When
    fail(desk, "b")
    tick(desk)
    # Then
    assert counts(desk) == {"b": 1}
    assert book(desk).unseen_count == 0


def test_a_resolved_issue_that_happens_again_is_opened_and_says_so(desk: Desk) -> None:
    fail(desk, "a")
    tick(desk)
    issue = only_issue(desk)
    desk.clock = ManualClock(issue.last_ms)
    change_issue(desk.principal, desk.namespace, issue.public_id, Verb.RESOLVE, desk.clock)
    # When a letter comes that is from before it was resolved: counted, and no more
    Issue.objects.filter(pk=issue.pk).update(changed_ms=issue.last_ms + DAY_MS)
    fail(desk, "a")
    tick(desk)
    issue.refresh_from_db()
    assert (issue.state, issue.count) == ("resolved", 2)
    # When one comes after that
    Issue.objects.filter(pk=issue.pk).update(changed_ms=issue.last_ms - 1)
    fail(desk, "a")
    tick(desk)
    # Then
    issue.refresh_from_db()
    assert (issue.state, issue.count, issue.reopen_count) == ("open", 3, 1)
    assert issue.opening_number == book(desk).opening_count == 2
    assert list(issue.events.order_by("number").values_list("state", "why")) == [
        ("open", "first"), ("resolved", "by_hand"), ("open", "again"),
    ]  # fmt: skip


@pytest.mark.parametrize("verb", [Verb.ACKNOWLEDGE, Verb.IGNORE])
def test_what_someone_knows_of_is_counted_and_stays_as_it_is(desk: Desk, verb: Verb) -> None:
    fail(desk, "a")
    tick(desk)
    issue = only_issue(desk)
    change_issue(desk.principal, desk.namespace, issue.public_id, verb, desk.clock)
    fail(desk, "a")
    tick(desk)
    issue.refresh_from_db()
    assert (issue.count, issue.event_count) == (2, 2)
    assert issue.state != IssueState.OPEN


def test_reasons_above_the_limit_are_counted_as_others_and_resolved_issues_make_room(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "ISSUES_MAX", 2)
    fail(desk, "a", "b", "b", "c", "d", "d", "d")
    tick(desk)
    assert counts(desk) == {"d": 3, "b": 2}, "the most frequent have their own"
    assert (book(desk).other_count, book(desk).other_ms > 0) == (2, True)
    found = Issue.objects.get(reason="b")
    change_issue(desk.principal, desk.namespace, found.public_id, Verb.RESOLVE, desk.clock)
    fail(desk, "e", "f", "f")
    tick(desk)
    assert counts(desk) == {"d": 3, "f": 2}
    assert book(desk).other_count == 3


def test_a_quiet_issue_is_resolved_on_its_own_once_it_is_quiet_for_long_enough(desk: Desk) -> None:
    fail(desk, "a", "b", "c")
    tick(desk)
    quiet, ignored, reopened = Issue.objects.order_by("reason")
    desk.clock = ManualClock(quiet.last_ms)
    Issue.objects.update(last_ms=quiet.last_ms, changed_ms=quiet.last_ms)
    change_issue(desk.principal, desk.namespace, ignored.public_id, Verb.IGNORE, desk.clock)
    Issue.objects.filter(pk=reopened.pk).update(changed_ms=quiet.last_ms + HOUR_MS)
    end_ms = quiet.last_ms + limits.QUIET_MS_DEFAULT
    assert resolve_quiet(end_ms - 1) == 0
    assert resolve_quiet(end_ms) == 1
    quiet.refresh_from_db()
    assert (quiet.state, quiet.changed_by, quiet.changed_ms) == ("resolved", "", end_ms)
    assert quiet.events.get(number=2).why == "quiet"
    assert resolve_quiet(end_ms + HOUR_MS) == 1
    ignored.refresh_from_db()
    assert ignored.state == "ignored"
    IssueBook.objects.update(quiet_ms=0)
    Issue.objects.update(state="open")
    assert resolve_quiet(end_ms + DAY_MS) == 0


def test_what_ended_long_ago_and_what_has_no_group_goes(desk: Desk) -> None:
    fail(desk, "a", "b")
    tick(desk)
    one, other = Issue.objects.order_by("reason")
    change_issue(desk.principal, desk.namespace, one.public_id, Verb.IGNORE, desk.clock)
    delete_old(one.last_ms + limits.RETAINED_MS)
    assert Issue.objects.count() == 2
    delete_old(other.last_ms + limits.RETAINED_MS + 1)
    assert Issue.objects.get() == other, "what is open is kept, however old"
    desk.group.delete()
    delete_old(other.last_ms)
    assert not Issue.objects.exists()
    assert not ScanPlace.objects.filter(group_name=desk.group.name).exists()


def test_one_batch_of_a_group_without_letters_is_nothing(desk: Desk) -> None:
    assert tick_group(desk) == (0, True)
    assert not Issue.objects.exists()
