"""``mqservice issue``: dead letters by their cause.

list, show                             GET …/issues… ─▶ stdout: a table, or NDJSON
acknowledge, resolve, ignore, reopen   POST …/issues/{id}:verb
"""

from __future__ import annotations

import enum
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient, decode
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Issues: dead letters by their cause.")

LIMIT_DEFAULT: Final = 32
LIMIT_MAX: Final = 100
HIDDEN: Final = "(not for this key)"
NO_REASON: Final = "(no reason was given)"

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="ID of the issue.")]


class State(enum.StrEnum):
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    IGNORED = "ignored"


class _Issue(msgspec.Struct, kw_only=True):
    """``reason`` is None for who may not read messages of the group."""

    id: str
    group: str
    topic: str | None
    reason: str | None
    state: str
    count: int
    first_seen: str
    last_seen: str

    @property
    def reason_text(self) -> str:
        return HIDDEN if self.reason is None else self.reason or NO_REASON

    @property
    def where_text(self) -> str:
        return " ".join(filter(None, (self.group, self.topic)))


class _Issues(msgspec.Struct):
    issues: list[msgspec.Raw]
    others: int
    unseen: int
    next: str | None = None


class _Message(msgspec.Struct):
    id: str
    at: str


class _Event(msgspec.Struct):
    at: str
    state: str
    why: str
    by: str | None


class _Detail(_Issue, kw_only=True):
    sample: str | None
    messages: list[_Message] | None
    history: list[_Event]


@app.command("list")
async def list_issues(
    target: Target,
    state: Annotated[
        State | None, typer.Option("--state", help="Only issues in this state.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Only issues of this group.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only issues of this topic.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-c", min=1, max=LIMIT_MAX, help="Maximum number of issues.")
    ] = LIMIT_DEFAULT,
    form: FormOption = Output.TABLE,
) -> int:
    """List issues, last seen first."""
    asked = {"state": state, "group": group, "topic": topic, "limit": str(limit)}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    async with RestClient(target) as client:
        page = await client.call("GET", f"issues?{query}", _Issues)
    if not prints(form, page.issues):
        table = Table("id", "cause", "of", "state", "letters", "last seen")
        for document in page.issues:
            issue = msgspec.json.decode(document, type=_Issue)
            table.add_row(
                issue.id,
                screen.without_controls(issue.reason_text),
                screen.without_controls(issue.where_text),
                issue.state,
                f"{issue.count:,}",
                issue.last_seen,
            )
        screen.show(table)
    if page.next is not None:
        screen.notice(f"there are more than these {len(page.issues):,}")
    if page.others:
        screen.notice(
            f"{page.others:,} dead letters with other reasons were left out: the limit of "
            "issues was reached"
        )
    if page.unseen:
        screen.notice(f"{page.unseen:,} dead letters expired before they were counted")
    return 0


@app.command("show")
async def show(target: Target, issue_id: IdArgument, form: FormOption = Output.TABLE) -> int:
    """Show one issue with its newest messages and its history."""
    async with RestClient(target) as client:
        document = msgspec.Raw(await client.download(_path(issue_id)))
    if prints(form, document):
        return 0
    issue = decode(document, _Detail)
    facts = Table("", "")
    for name, text in (
        ("cause", issue.reason_text),
        ("as written", issue.sample or ""),
        ("of", issue.where_text),
        ("state", issue.state),
        ("dead letters", f"{issue.count:,}"),
        ("first seen", issue.first_seen),
        ("last seen", issue.last_seen),
        ("messages", "\n".join(f"{each.at} {each.id}" for each in issue.messages or [])),
        ("history", "\n".join(map(_event_text, issue.history))),
    ):
        facts.add_row(name, screen.without_controls(text))
    screen.show(facts)
    return 0


@app.command("acknowledge")
def acknowledge(target: Target, issue_id: IdArgument) -> None:
    """Acknowledge an issue: someone is working on it."""
    screen.run(_change(target, issue_id, "acknowledge"))


@app.command("resolve")
def resolve(target: Target, issue_id: IdArgument) -> None:
    """Resolve an issue; a later dead letter opens it again."""
    screen.run(_change(target, issue_id, "resolve"))


@app.command("ignore")
def ignore(target: Target, issue_id: IdArgument) -> None:
    """Ignore an issue: its dead letters are only counted."""
    screen.run(_change(target, issue_id, "ignore"))


@app.command("reopen")
def reopen(target: Target, issue_id: IdArgument) -> None:
    """Reopen an issue."""
    screen.run(_change(target, issue_id, "reopen"))


async def _change(target: Target, issue_id: str, verb: str) -> int:
    async with RestClient(target) as client:
        issue = await client.call("POST", f"{_path(issue_id)}:{verb}", _Issue, content=b"")
    screen.notice(f"issue {issue.id} is {issue.state}")
    return 0


def _event_text(event: _Event) -> str:
    return f"{event.at} {event.state}, {event.why if event.by is None else event.by}"


def _path(issue_id: str) -> str:
    return f"issues/{quote(issue_id, safe='')}"
