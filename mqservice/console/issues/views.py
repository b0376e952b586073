"""Issues: failures by cause, one of them with messages and history, and the actions on it.

form ──▶ issues.services, as REST calls it ──▶ audit
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.accounts.roles import Permission
from mqservice.console.issues.queries import ACTIVE, bars_of, issues_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_views import act
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.console.shared.navigation import Text
from mqservice.console.templatetags.words import WORDS
from mqservice.delivery.reading.same_cause import NO_REASON
from mqservice.issues.limits import HOURS_RETAINED
from mqservice.issues.models import Issue, IssueState
from mqservice.issues.queries import IssueFilter, events_of, get_issue
from mqservice.issues.schemas import IssueSettingsIn, examples_of, may_read, quiet_text
from mqservice.issues.services import Verb, change_issue, set_quiet
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text

ALL: Final = "all"
QUIET_CHARS_MAX: Final = 16
GROUPS_OFFERED_MAX: Final = 200
CHANGE_MESSAGES: Final = {
    Verb.ACKNOWLEDGE: gettext_lazy(
        "Acknowledged: dead letters are still counted, without further notifications."
    ),
    Verb.RESOLVE: gettext_lazy("Resolved: a new dead letter reopens the issue."),
    Verb.IGNORE: gettext_lazy("Ignored: dead letters are counted, without notifications."),
    Verb.REOPEN: gettext_lazy("The issue was reopened."),
}


@page("issues")
def issues(frame: Frame) -> HttpResponse:
    """``?state=&group=&topic=&before=``: the last seen first; without a state those not ended."""
    given = {
        name: frame.request.GET.get(name, "").strip()[:NAME_CHARS_MAX]
        for name in ("state", "group", "topic")
    }
    wanted = IssueFilter(
        states=_states(given["state"]), group=given["group"] or None, topic=given["topic"] or None
    )
    before = frame.request.GET.get("before", "")
    try:
        found = issues_page(frame.namespace, wanted, before=before, now_ms=SystemClock().now_ms())
    except Problem:  # the last of the page before is gone: there is no place to go on from
        return redirect(frame.url("issues"))
    asked = urlencode({name: value for name, value in given.items() if value and value != ALL})
    groups = frame.namespace.groups.order_by("name").values_list("name", flat=True)
    return frame.render(
        "console/issues.html",
        page=found,
        rows=[(issue, bars, may_read(frame.principal, issue)) for issue, bars in found.rows],
        tabs=_tabs(given["state"], found.counts, found.active_count),
        given=given,
        is_filtered=any((given["group"], given["topic"])),
        groups=list(groups[:GROUPS_OFFERED_MAX]),
        quiet=quiet_text(found.book),
        curl=curl_of("GET", f"{frame.api_root}/issues" + (asked and f"?{asked}")),
    )


@page("issues")
def issue(frame: Frame, issue: str) -> HttpResponse:
    """One issue. Two queries."""
    row = _found(frame, issue)
    is_readable = may_read(frame.principal, row)
    letters = {"reason": row.reason or NO_REASON}
    examples = examples_of(row) if is_readable else []
    return frame.render(
        "console/issue.html",
        issue=row,
        is_readable=is_readable,
        examples=examples,
        ids=urlencode([("id", each.id) for each in examples]),
        letters=urlencode(letters),
        bars=bars_of(row, SystemClock().now_ms(), HOURS_RETAINED),
        hours_shown=HOURS_RETAINED,
        events=events_of(row),
        crumbs=frame.crumbs(row.group_name),
        curl=curl_of("GET", f"{frame.api_root}/issues/{row.public_id}"),
    )


@page("issues", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def change(frame: Frame, issue: str) -> HttpResponse:
    """``verb=acknowledge``, ``resolve``, ``ignore`` or ``reopen``."""
    verb = frame.request.POST.get("verb", "")
    if verb not in set(Verb):
        raise Http404  # no form of ours
    row = _found(frame, issue)
    try:
        change_issue(frame.principal, frame.namespace, row.public_id, Verb(verb), SystemClock())
    except Problem as problem:
        messages.error(frame.request, problem_text(problem))
        return redirect(frame.url("issues"))
    messages.success(frame.request, CHANGE_MESSAGES[Verb(verb)])
    return redirect(frame.url("issue", row.public_id))


@page("issues", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def settings(frame: Frame) -> HttpResponse:
    """``resolve_after=7d``, empty for never."""
    text = frame.request.POST.get("resolve_after", "").strip()[:QUIET_CHARS_MAX]
    asked = IssueSettingsIn(resolve_after=text or None)
    return act(
        frame,
        lambda: set_quiet(frame.principal, frame.namespace, asked.quiet_ms()),
        told=_("Saved. The change applies immediately."),
        back=frame.url("issues"),
    )


def _tabs(
    chosen: str, counts: Mapping[IssueState, int], active_count: int
) -> list[tuple[str, Text, int, bool]]:
    """Value, text, number of issues, and whether it is the chosen one."""
    tabs: list[tuple[str, Text, int]] = [
        ("", _("Active"), active_count),
        *((state.value, WORDS[state.value], counts[state]) for state in IssueState),
        (ALL, _("All"), sum(counts.values())),
    ]
    known = {value for value, _text, _count in tabs}
    is_known = chosen in known
    return [
        (value, text, count, value == (chosen if is_known else "")) for value, text, count in tabs
    ]


def _states(text: str) -> tuple[IssueState, ...]:
    if text == ALL:
        return ()
    return (IssueState(text),) if text in set(IssueState) else ACTIVE


def _found(frame: Frame, public_id: str) -> Issue:
    """Raises Http404. One query."""
    return find_or_404(get_issue, frame.namespace, public_id)
