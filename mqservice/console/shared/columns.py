"""Which columns of the wide tables a user sees: the chosen ones, or the defaults.

    TABLES ──┐
    row of the person ──▶ [columns_of] ──▶ template: {% if "lag" in columns.shown %}
    form ── POST /console/-/columns ──▶ [choose_columns] ──▶ row

Only what differs from the usual is kept, so that a new column is seen by all. The first column,
which names the row, is always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from mqservice.accounts.models import User
from mqservice.console.models import ColumnChoice
from mqservice.console.shared.frame import signed_in

_MANY: Final = 2  # more columns than usual
_MOST: Final = 4


@dataclass(frozen=True, slots=True)
class Column:
    """``is_usual``: whether it is there for who has chosen nothing."""

    name: str
    title: Promise
    is_usual: bool = True


_OF_STORED: Final = (
    Column("group", _("Message group"), is_usual=False),
    Column("properties", _("Properties"), is_usual=False),
    Column("born", _("Produced"), is_usual=False),
    Column("id", _("Message ID"), is_usual=False),
    Column("body", _("Body")),
)
TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "topics": (
        Column("messages", _("Messages")),
        Column("size", _("Size")),
        Column("rate", _("In")),
        Column("lag", _("Lag")),
        Column("groups", _("Groups and lag")),
        Column("queues", _("Queues")),
        Column("retention", _("Retention")),
        Column("durability", _("Durability"), is_usual=False),
        Column("created", _("Created"), is_usual=False),
    ),
    "groups": (
        Column("state", _("State")),
        Column("lag", _("Lag")),
        Column("age", _("Oldest")),
        Column("rate", _("Out")),
        Column("inflight", _("In flight")),
        Column("members", _("Members")),
        Column("dispatch", _("Dispatch")),
        Column("lease", _("Lease"), is_usual=False),
        Column("created", _("Created"), is_usual=False),
    ),
    "messages": (
        Column("place", _("Queue/offset")),
        Column("tag", _("Tag")),
        Column("keys", _("Keys")),
        *_OF_STORED,
    ),
    "group_dead_letters": (
        Column("reason", _("Reason")),
        Column("attempts", _("Attempts")),
        Column("topic", _("Topic")),
        Column("tag", _("Tag")),
        Column("keys", _("Keys"), is_usual=False),
        *_OF_STORED,
    ),
    # Whose topic is always there where it is not that of the page.
    "topic_scheduled": (
        Column("born", _("Produced")),
        Column("tag", _("Tag")),
        Column("keys", _("Keys")),
        Column("group", _("Message group"), is_usual=False),
        Column("properties", _("Properties"), is_usual=False),
        Column("id", _("Message ID"), is_usual=False),
        Column("body", _("Body")),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Of one table for one person."""

    table: str
    shown: frozenset[str]

    @property
    def choices(self) -> list[tuple[Column, bool]]:
        """Each with whether it is shown, in the order of the table."""
        return [(column, column.name in self.shown) for column in TABLES[self.table]]

    @property
    def width(self) -> str:
        """The class of a table with more columns than a page has room for: it scrolls sideways."""
        more = len(self.shown) - sum(column.is_usual for column in TABLES[self.table])
        return "rows-most" if more >= _MOST else "rows-many" if more >= _MANY else ""

    @property
    def is_usual(self) -> bool:
        return all(column.is_usual == is_shown for column, is_shown in self.choices)


def columns_of(user: User, table: str) -> Columns:
    """One query."""
    choice = ColumnChoice.objects.filter(user=user, table=table).first()
    changed: dict[str, bool] = {} if choice is None else choice.changed
    shown = {column.name for column in TABLES[table] if changed.get(column.name, column.is_usual)}
    return Columns(table=table, shown=frozenset(shown))


@require_POST
@login_required
def choose_columns(request: HttpRequest) -> HttpResponse:
    """``table`` and each ``column`` that is to be seen; ``usual`` takes the choice back."""
    table = request.POST.get("table", "")
    if table not in TABLES:
        raise Http404
    user, wanted = signed_in(request), set(request.POST.getlist("column"))
    changed = {
        column.name: column.name in wanted
        for column in TABLES[table]
        if (column.name in wanted) != column.is_usual
    }
    if "usual" in request.POST or not changed:
        ColumnChoice.objects.filter(user=user, table=table).delete()
    else:
        ColumnChoice.objects.update_or_create(user=user, table=table, defaults={"changed": changed})
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = resolve_url("console:overview")
    return HttpResponseRedirect(target)
