"""The pages of the side navigation. A new page is one line here; see ``docs/console.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mqservice.accounts.access import Principal
from mqservice.accounts.roles import Permission

Text = str | Promise  # a Promise is translated when it is shown


@dataclass(frozen=True, slots=True)
class Item:
    """``here``: what its views call themselves, and the name of its icon and, unless ``path`` is
    another, of its path. Who lacks ``needs`` does not see it.
    """

    here: str
    title: Text
    needs: Permission = Permission.SETTINGS_READ
    path: str = ""

    @property
    def url(self) -> str:
        """Name of a path with the argument ``ns``."""
        return f"console:{self.path or self.here}"

    @property
    def icon(self) -> str:
        return self.here.replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: Text
    items: tuple[Item, ...]


SECTIONS: Final = (
    Section(
        title="",
        items=(Item("overview", _("Overview"), path="namespace"),),
    ),
    Section(
        title=_("Messaging"),
        items=(
            Item("topics", _("Topics")),
            Item("groups", _("Groups")),
            Item("dead-letters", _("Dead letters")),
            Item("issues", _("Issues")),
            Item("scheduled", _("Scheduled"), needs=Permission.CONSUME),
            Item("schedules", _("Cron schedules")),
            Item("traces", _("Traces"), needs=Permission.CONSUME),
            Item("tail", _("Live tail"), needs=Permission.CONSUME),
            Item("clients", _("Clients")),
            Item("reports", _("Reports")),
        ),
    ),
    Section(
        title=_("Tenant"),
        items=(
            Item("keys", _("API keys"), needs=Permission.KEYS_READ),
            Item("members", _("Members"), needs=Permission.MEMBERS_READ),
            Item("audit", _("Audit log"), needs=Permission.AUDIT_READ),
            Item("masking", _("Masking")),
            Item("alerts", _("Alerts")),
            Item("definitions", _("Definitions")),
            Item("usage", _("Usage")),
            Item("read-only", _("Read-only mode")),
        ),
    ),
    Section(
        title=_("Help"),
        items=(Item("quick-start", _("Quick start")),),
    ),
)


def find_item(here: str) -> Item | None:
    """The item whose views call themselves ``here``."""
    items = (item for section in SECTIONS for item in section.items)
    return next((item for item in items if item.here == here), None)


def sections_for(principal: Principal) -> list[Section]:
    """What ``principal`` may open; sections without any of it are left out."""
    shown = []
    for section in SECTIONS:
        items = tuple(item for item in section.items if principal.permits(item.needs))
        if items:
            shown.append(Section(title=section.title, items=items))
    return shown
