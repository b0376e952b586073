"""The pages of the side navigation. A new page is one line here; see ``docs/console.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mqservice.accounts.access import Principal
from mqservice.accounts.roles import Permission

Text = str | Promise  # a Promise is translated when it is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """``url``: name of a path with the argument ``ns``; ``here``: what its views call themselves;
    ``icon``: a file of ``templates/icons``. Who lacks ``needs`` does not see it.
    """

    here: str
    url: str
    title: Text
    icon: str
    needs: Permission = Permission.SETTINGS_READ


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    title: Text
    items: tuple[Item, ...]


SECTIONS: Final = (
    Section(
        title="",
        items=(
            Item(here="overview", url="console:namespace", title=_("Overview"), icon="overview"),
        ),
    ),
    Section(
        title=_("Messaging"),
        items=(
            Item(here="topics", url="console:topics", title=_("Topics"), icon="topics"),
            Item(here="groups", url="console:groups", title=_("Groups"), icon="groups"),
            Item(
                here="dead-letters",
                url="console:dead-letters",
                title=_("Dead letters"),
                icon="dead_letters",
            ),
            Item(here="issues", url="console:issues", title=_("Issues"), icon="issues"),
            Item(
                here="scheduled",
                url="console:scheduled",
                title=_("Scheduled"),
                icon="scheduled",
                needs=Permission.CONSUME,
            ),
            Item(
                here="schedules",
                url="console:schedules",
                title=_("Cron schedules"),
                icon="schedules",
            ),
            Item(
                here="traces",
                url="console:traces",
                title=_("Traces"),
                icon="traces",
                needs=Permission.CONSUME,
            ),
            Item(
                here="tail",
                url="console:tail",
                title=_("Live tail"),
                icon="tail",
                needs=Permission.CONSUME,
            ),
            Item(here="clients", url="console:clients", title=_("Clients"), icon="clients"),
            Item(here="reports", url="console:reports", title=_("Reports"), icon="reports"),
        ),
    ),
    Section(
        title=_("Tenant"),
        items=(
            Item(
                here="keys",
                url="console:keys",
                title=_("API keys"),
                icon="keys",
                needs=Permission.KEYS_READ,
            ),
            Item(
                here="members",
                url="console:members",
                title=_("Members"),
                icon="members",
                needs=Permission.MEMBERS_READ,
            ),
            Item(
                here="audit",
                url="console:audit",
                title=_("Audit log"),
                icon="audit",
                needs=Permission.AUDIT_READ,
            ),
            Item(here="masking", url="console:masking", title=_("Masking"), icon="masking"),
            Item(here="alerts", url="console:alerts", title=_("Alerts"), icon="alerts"),
            Item(
                here="definitions",
                url="console:definitions",
                title=_("Definitions"),
                icon="definitions",
            ),
            Item(here="usage", url="console:usage", title=_("Usage"), icon="usage"),
            Item(
                here="read-only",
                url="console:read-only",
                title=_("Read-only mode"),
                icon="read_only",
            ),
        ),
    ),
    Section(
        title=_("Help"),
        items=(
            Item(
                here="quick-start",
                url="console:quick-start",
                title=_("Quick start"),
                icon="quick_start",
            ),
        ),
    ),
)


def sections_for(principal: Principal) -> list[Section]:
    """What ``principal`` may open; sections without any of it are left out."""
    shown = []
    for section in SECTIONS:
        items = tuple(item for item in section.items if principal.permits(item.needs))
        if items:
            shown.append(Section(title=section.title, items=items))
    return shown
