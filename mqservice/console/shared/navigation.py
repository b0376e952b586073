"""The side navigation: six places of everyday work, and two sections that fold. A new page is one
line here; see ``docs/console.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    another, of its path. ``guide``: what its pages are about, as a guide's name and anchor. Who
    lacks ``needs`` does not see it.
    """

    here: str
    title: Text
    guide: str
    needs: Permission = Permission.SETTINGS_READ
    path: str = ""

    @property
    def url(self) -> str:
        """Name of a path with the argument ``ns``."""
        return f"console:{self.path or self.here}"


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation: one page, or several that are tabs of each other."""

    title: Text
    icon: str
    tabs: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Places under a heading that folds; without a title they are always there."""

    title: Text
    places: tuple[Place, ...]


def _page(item: Item) -> Place:
    return Place(item.title, item.here.replace("-", "_"), (item,))


SECTIONS: Final = (
    Section(
        "",
        (
            _page(Item("home", _("Home"), "rest#what-needs-attention", path="namespace")),
            _page(Item("topics", _("Topics"), "concepts#topics-queues-and-offsets")),
            _page(Item("groups", _("Groups"), "concepts#groups-and-leases")),
            _page(
                Item("messages", _("Messages"), "guide#find-a-message", needs=Permission.CONSUME)
            ),
            Place(
                _("Failures"),
                "issues",
                (
                    Item("issues", _("Issues"), "rest#issues"),
                    Item("dead-letters", _("Dead letters"), "guide#send-dead-letters-back"),
                ),
            ),
            Place(
                _("Schedules"),
                "schedules",
                (
                    Item("schedules", _("Cron schedules"), "rest#schedules"),
                    Item(
                        "scheduled",
                        _("Scheduled messages"),
                        "concepts#delays",
                        needs=Permission.CONSUME,
                    ),
                ),
            ),
        ),
    ),
    Section(
        _("Monitor"),
        (
            _page(Item("alerts", _("Alerts"), "rest#alerts")),
            _page(Item("clients", _("Clients"), "websocket#heartbeat-and-closing")),
            _page(Item("reports", _("Reports"), "analytics#reports")),
            _page(Item("usage", _("Usage"), "rest#usage")),
        ),
    ),
    Section(
        _("Settings"),
        (
            _page(Item("keys", _("API keys"), "access#keys", needs=Permission.KEYS_READ)),
            _page(
                Item(
                    "members",
                    _("Members"),
                    "access#members-and-invitations",
                    needs=Permission.MEMBERS_READ,
                )
            ),
            _page(Item("masking", _("Masking"), "access#masking")),
            _page(Item("definitions", _("Definitions"), "rest#definitions")),
            _page(Item("audit", _("Audit log"), "access#audit", needs=Permission.AUDIT_READ)),
            _page(Item("read-only", _("Read-only mode"), "access#read-only-mode")),
        ),
    ),
)
# Not in a section: the frame has a link of its own to it.
QUICK_START: Final = Item("quick-start", _("Quick start"), "quickstart")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlace:
    """``count``: how much waits there; ``is_here``: the page is one of it."""

    title: Text
    icon: str
    url: str
    count: int
    is_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSection:
    """``is_open``: unless it folds, and while the page is in it."""

    title: Text
    places: list[ShownPlace]

    @property
    def is_open(self) -> bool:
        return any(place.is_here for place in self.places)

    @property
    def count(self) -> int:
        return sum(place.count for place in self.places)


def find_item(here: str) -> Item | None:
    """The item whose views call themselves ``here``."""
    items = [tab for section in SECTIONS for place in section.places for tab in place.tabs]
    return next((item for item in [*items, QUICK_START] if item.here == here), None)


def tabs_for(principal: Principal, here: str) -> list[Item]:
    """Pages beside ``here`` that ``principal`` may open, itself included; none for a page that
    stands alone.
    """
    for section in SECTIONS:
        for place in section.places:
            if any(tab.here == here for tab in place.tabs):
                tabs = [tab for tab in place.tabs if principal.permits(tab.needs)]
                return tabs if len(tabs) > 1 else []
    return []


def sections_for(principal: Principal, here: str, waiting: Mapping[str, int]) -> list[ShownSection]:
    """What ``principal`` may open; sections without any of it are left out.

    Args:
        waiting: how much waits, by what pages call themselves.
    """
    shown = []
    for section in SECTIONS:
        places = []
        for place in section.places:
            tabs = [tab for tab in place.tabs if principal.permits(tab.needs)]
            if tabs:
                places.append(
                    ShownPlace(
                        title=place.title,
                        icon=place.icon,
                        url=tabs[0].url,
                        count=sum(waiting.get(tab.here, 0) for tab in tabs),
                        is_here=any(tab.here == here for tab in place.tabs),
                    )
                )
        if places:
            shown.append(ShownSection(title=section.title, places=places))
    return shown
