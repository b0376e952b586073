"""``mqservice alert``: rules that watch groups and the disk, their state and their history.

list, show, history   GET …/alerts… ─▶ stdout: a table, or NDJSON
set, delete           PUT or DELETE …/alerts/{name}
mute, unmute, test    POST …/alerts/{name}:mute, :unmute, :test
export                GET …/alerts.yaml ─▶ stdout, or a file
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.alerts.settings import BODY, MUTE
from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.options import asks
from mqservice.cli.outputs import FileOption, FormOption, Output, prints, write_output
from mqservice.cli.setting_options import Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(
    no_args_is_help=True, help="Alert rules: list, create, change, mute, test, delete."
)

LIMIT_DEFAULT: Final = 32
LIMIT_MAX: Final = 100
UNKNOWN: Final = "?"

NameArgument = Annotated[str, typer.Argument(help="Name of the rule.")]


class _Rule(msgspec.Struct, kw_only=True):
    """``value``: of the last look; None when nobody knew."""

    name: str
    kind: str
    state: str
    threshold: int
    group: str | None = None
    topic: str | None = None
    enabled: bool = True
    pending: bool = False
    value: int | None = None
    changed_at: str | None = None
    webhook_secret: str | None = None
    muted_until: str | None = None
    muted_by: str | None = None

    @property
    def state_text(self) -> str:
        if not self.enabled:
            return "silenced"
        state = "pending" if self.pending else self.state
        return state if self.muted_until is None else f"{state}, muted until {self.muted_until}"


class _Rules(msgspec.Struct):
    alerts: list[msgspec.Raw]


class _Notification(msgspec.Struct):
    channel: str
    target: str
    state: str


class _Event(msgspec.Struct):
    at: str
    state: str
    value: int | None
    notifications: list[_Notification]


class _History(msgspec.Struct):
    events: list[msgspec.Raw]
    next: int | None = None


@app.command("list")
async def list_alerts(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the rules and their states."""
    async with RestClient(target) as client:
        found = (await client.call("GET", "alerts", _Rules)).alerts
    if prints(form, found):
        return 0
    table = Table("alert", "kind", "of", "state", "value", "threshold", "since")
    for document in found:
        rule = msgspec.json.decode(document, type=_Rule)
        table.add_row(
            screen.without_controls(rule.name),
            rule.kind,
            screen.without_controls(" ".join(filter(None, (rule.group, rule.topic)))),
            rule.state_text,
            UNKNOWN if rule.value is None else f"{rule.value:,}",
            f"{rule.threshold:,}",
            rule.changed_at or "",
        )
    screen.show(table)
    return 0


@app.command("set")
@takes_settings(BODY)
def set_alert(body: Body, target: Target, name: NameArgument) -> None:
    """Create a rule, or change the given settings of it."""
    screen.run(_set(target, name, body))


@app.command("mute")
@takes_settings(MUTE)
def mute(body: Body, target: Target, name: NameArgument) -> None:
    """Send no notifications for a rule for a time; it is still evaluated."""
    screen.run(_mute(target, name, "mute", msgspec.json.encode(body)))


@app.command("unmute")
def unmute(target: Target, name: NameArgument) -> None:
    """End a mute; missed changes are notified at the next evaluation."""
    screen.run(_mute(target, name, "unmute", b""))


@app.command("test")
async def test(target: Target, name: NameArgument) -> int:
    """Send a test notification to the emails and the webhook of a rule."""
    async with RestClient(target) as client:
        event = await client.call("POST", f"{_path(name)}:test", _Event)
    count = len(event.notifications)
    what = "1 test notification is" if count == 1 else f"{count} test notifications are"
    screen.notice(f"{what} on the way; `alert history {name}` shows what became of it")
    return 0


@app.command("delete")
@asks("Delete alert {name} with its history?")
async def delete(target: Target, name: NameArgument) -> int:
    """Delete a rule with its history."""
    async with RestClient(target) as client:
        await client.call("DELETE", _path(name))
    screen.notice(f"alert {name} was deleted")
    return 0


@app.command("history")
async def history(
    target: Target,
    name: NameArgument,
    limit: Annotated[
        int, typer.Option("--limit", "-c", min=1, max=LIMIT_MAX, help="Maximum number of changes.")
    ] = LIMIT_DEFAULT,
    form: FormOption = Output.TABLE,
) -> int:
    """Show when a rule fired and recovered, newest first, and who was notified."""
    async with RestClient(target) as client:
        page = await client.call("GET", f"{_path(name)}/history?limit={limit}", _History)
    if not prints(form, page.events):
        table = Table("at", "state", "value", "notified")
        for document in page.events:
            event = msgspec.json.decode(document, type=_Event)
            told = [f"{each.channel} {each.target}: {each.state}" for each in event.notifications]
            value = UNKNOWN if event.value is None else f"{event.value:,}"
            table.add_row(event.at, event.state, value, screen.without_controls("\n".join(told)))
        screen.show(table)
    if page.next is not None:
        screen.notice(f"there are more than these {len(page.events):,}")
    return 0


@app.command("export")
async def export(target: Target, file: FileOption = None) -> int:
    """Write all rules as alerting rules of Prometheus, in YAML."""
    async with RestClient(target) as client:
        return write_output(await client.download("alerts.yaml"), file)


async def _set(target: Target, name: str, change: Body) -> int:
    async with RestClient(target) as client:
        rule = await client.call("PUT", _path(name), _Rule, content=msgspec.json.encode(change))
    screen.notice(f"alert {rule.name} is {rule.state_text}")
    if rule.webhook_secret is not None:
        screen.notice("the webhook's secret, which is shown only once:")
        typer.echo(rule.webhook_secret)
    return 0


async def _mute(target: Target, name: str, verb: str, content: bytes) -> int:
    path = f"alerts/{quote(name, safe='')}:{verb}"
    async with RestClient(target) as client:
        rule = await client.call("POST", path, _Rule, content=content)
    screen.notice(f"alert {rule.name}: {rule.state_text}")
    return 0


def _path(name: str) -> str:
    return f"alerts/{quote(name, safe='')}"
