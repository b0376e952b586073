"""Issues in the console: the list, one issue, what is done to it, who sees what."""

from __future__ import annotations

import pytest
from django.test import Client

from mqservice.accounts.models import Namespace
from mqservice.alerts.evaluation import evaluate
from mqservice.console.issues.queries import BARS, bars_of
from mqservice.issues.models import Issue, IssueBook
from mqservice.issues.recording import record_tallies
from mqservice.issues.tallies import Cause, Tally
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS
from tests.mqservice.console.reading import why_not
from tests.people import People

LIST = "/console/acme/issues"
HOSTILE = "<script>alert(<n>)</script>"


def letters(
    namespace: Namespace, reason: str, *, group: str = "billing", count: int = 1, at_ms: int = 0
) -> Issue:
    at_ms = at_ms or SystemClock().now_ms()
    one = Tally(
        count=count, first_ms=at_ms, last_ms=at_ms, sample=f"as written: {reason}",
        messages=[("AB12", at_ms)],
    )  # fmt: skip
    one.hours[at_ms // HOUR_MS] = count
    record_tallies(namespace, group, {Cause("orders", reason): one}, at_ms)
    return Issue.objects.get(namespace=namespace, group_name=group, reason=reason)


def shown(client: Client, path: str = LIST) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_without_issues_the_page_says_what_they_are(people: People, alice: Client) -> None:
    page = shown(alice)
    assert "No issues" in page
    assert "the same cause are listed here as one issue" in page
    assert 'aria-label="State"' not in page


def test_list_shows_cause_count_and_state_of_this_namespace(people: People, alice: Client) -> None:
    letters(people.acme, HOSTILE, count=1_234)
    letters(people.rival, "foreign")
    page = shown(alice)
    assert "&lt;script&gt;alert(&lt;n&gt;)" in page
    assert "<script>alert" not in page
    assert "1,234" in page
    assert "foreign" not in page
    assert page.count('width="0.8"') == 1
    assert ">1</span></a>" in page.split('aria-label="State"')[1]


def test_tabs_and_filters_choose(people: People, alice: Client) -> None:
    letters(people.acme, "first")
    letters(people.acme, "second", group="other")
    letters(people.acme, "third")
    Issue.objects.filter(reason="third").update(state="resolved")
    page = shown(alice)
    assert "first" in page
    assert "third" not in page
    assert "third" in shown(alice, f"{LIST}?state=resolved")
    assert "third" in shown(alice, f"{LIST}?state=all")
    page = shown(alice, f"{LIST}?group=other")
    assert "second" in page
    assert ">first<" not in page
    assert "No matching issues" in shown(alice, f"{LIST}?topic=none")
    assert "first" in shown(alice, f"{LIST}?state=nonsense")
    assert alice.get(f"{LIST}?before=iss_gone").status_code == 302


def test_pages_follow_one_another(
    people: People, alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqservice.console.issues import queries as issues

    monkeypatch.setattr(issues, "ISSUES_SHOWN", 1)
    older = letters(people.acme, "older", at_ms=SystemClock().now_ms() - 5)
    newer = letters(people.acme, "newer")
    page = shown(alice)
    assert f"before={newer.public_id}" in page
    page = shown(alice, f"{LIST}?before={newer.public_id}")
    assert older.public_id in page
    assert newer.public_id not in page.split("<tbody>")[1]


def test_what_is_in_no_issue_is_reported(people: People, alice: Client) -> None:
    letters(people.acme, "a")
    IssueBook.objects.update(other_count=12, other_ms=SystemClock().now_ms(), unseen_count=1)
    page = shown(alice)
    assert "12 dead letters with other reasons were left out" in page
    assert "1 dead letter was deleted before it could be scanned" in page


def test_issue_is_acknowledged_resolved_and_reopened(people: People, alice: Client) -> None:
    issue = letters(people.acme, "no stock")
    path = f"{LIST}/{issue.public_id}"
    page = shown(alice, path)
    assert "as written: no stock" in page
    assert "/console/acme/dead-letters/billing/messages/AB12" in page
    assert "/console/acme/dead-letters/billing/redrive?id=AB12" in page
    assert "/console/acme/dead-letters/billing?reason=no+stock" in page
    assert "first dead letter" in page
    for verb, told in (
        ("acknowledge", "Acknowledged"), ("resolve", "Resolved"), ("reopen", "was reopened"),
        ("ignore", "Ignored"),
    ):  # fmt: skip
        answer = alice.post(f"{path}/change", {"verb": verb}, follow=True)
        assert told in answer.content.decode()
    assert "by user:alice" in shown(alice, path)
    assert alice.post(f"{path}/change", {"verb": "burn"}).status_code == 404
    assert alice.get(f"{path}/change").status_code == 405
    issue.refresh_from_db()
    assert issue.state == "ignored"


def test_viewer_sees_that_it_fails_but_no_words_and_no_action(people: People, bob: Client) -> None:
    issue = letters(people.acme, "secret stock of 7")
    path = f"{LIST}/{issue.public_id}"
    for page in (shown(bob), shown(bob, path)):
        assert "billing" in page
        assert "secret stock" not in page
        assert "AB12" not in page
        assert 'name="verb"' not in page
        assert 'name="resolve_after"' not in page
    assert {"Acknowledge", "Ignore", "Resolve"} <= set(why_not(shown(bob, path)))
    assert bob.post(f"{path}/change", {"verb": "resolve"}).status_code == 403
    assert bob.post("/console/acme/issue-settings", {"resolve_after": ""}).status_code == 403
    assert "resolved automatically" in shown(bob)


def test_issue_of_another_tenant_is_not_found(people: People, alice: Client) -> None:
    issue = letters(people.rival, "foreign")
    path = f"{LIST}/{issue.public_id}"
    assert alice.get(path).status_code == 404
    assert alice.post(f"{path}/change", {"verb": "resolve"}).status_code == 404
    assert alice.get(f"/console/rival/issues/{issue.public_id}").status_code == 404


@pytest.mark.parametrize(
    ("text", "told", "kept"),
    [("2d", "The change applies immediately", "2d"), ("", "The change applies immediately", ""),
     ("soon", "not a duration", "7d"), ("1m", "must be 1h to 90d", "7d")],
)  # fmt: skip
def test_quiet_time_is_set_on_the_page(
    people: People, alice: Client, text: str, told: str, kept: str
) -> None:
    form = {"resolve_after": text}
    answer = alice.post("/console/acme/issue-settings", form, follow=True).content.decode()
    assert told in answer
    assert f'name="resolve_after" value="{kept}"' in answer


def test_new_alert_of_this_page_is_for_issues(people: People, alice: Client) -> None:
    assert "new-alert?kind=issue" in shown(alice)
    form = shown(alice, "/console/acme/new-alert?kind=issue")
    assert '<input type="hidden" name="kind" value="issue">' in form


def test_history_of_an_alert_leads_to_the_issues_it_told_of(
    people: People, alice: Client, bob: Client
) -> None:
    form = {"name": "broken", "kind": "issue", "for": "0s", "window": "5m"}
    form["webhook_format"] = "mqservice"  # what the page has chosen
    assert alice.post("/console/acme/new-alert", form).status_code == 302
    issue = letters(people.acme, "no stock")
    evaluate(SystemClock().now_ms())
    link = f'href="{LIST}/{issue.public_id}">no stock</a>'
    assert link in shown(alice, "/console/acme/alerts/broken")
    assert "no stock" not in shown(bob, "/console/acme/alerts/broken")


def test_bars_are_the_last_hours_and_the_least_is_seen() -> None:
    issue = Issue(hours={"100": 2_000, "123": 1, "124": 5})
    bars = bars_of(issue, 123 * HOUR_MS)
    assert len(bars) == BARS
    assert [bar.count for bar in bars if bar.count] == [2_000, 1]
    assert (bars[0].height, bars[0].top, bars[-1].height) == (100.0, 0.0, 8.0)
