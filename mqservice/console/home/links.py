"""Items that need attention, with the pages on which one can do something about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from mqservice.attention.items import (
    ITEMS_OF_GROUPS,
    Action,
    ActionName,
    AttentionItem,
    AttentionKind,
)
from mqservice.console.shared.frame import Frame
from mqservice.console.usage.queries import limit_title

_SAID: Final[dict[AttentionKind, tuple[Promise, str]]] = {
    AttentionKind.QUOTA_FULL: (_("quota used up"), "bad"),
    AttentionKind.GROUP_STALLED: (_("stalled"), "bad"),
    AttentionKind.ALERT_FIRING: (_("alert"), "bad"),
    AttentionKind.GROUP_NO_MEMBERS: (_("no members"), "bad"),
    AttentionKind.DEAD_LETTERS: (_("dead letters"), "bad"),
    AttentionKind.SCHEDULE_FAILING: (_("schedule fails"), "bad"),
    AttentionKind.NOTIFICATION_FAILING: (_("not notified"), "unsure"),
    AttentionKind.GROUP_FALLING_BEHIND: (_("falling behind"), "unsure"),
    AttentionKind.QUOTA_HIGH: (_("quota near its end"), "unsure"),
}
_PLACES: Final = {
    AttentionKind.ALERT_FIRING: "alert",
    AttentionKind.NOTIFICATION_FAILING: "alert",
    AttentionKind.SCHEDULE_FAILING: "schedule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLink:
    """``url`` is a page; ``verb``: it is a form that sends this instead. ``is_allowed``: whether
    the user may do it.
    """

    title: Promise
    url: str
    verb: str = ""
    is_allowed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedItem:
    """``word``: what is wrong, in ``tone``; the first action is at ``url`` too."""

    item: AttentionItem
    title: str
    word: Promise
    tone: str
    url: str
    actions: list[ActionLink]


def linked(frame: Frame, item: AttentionItem) -> LinkedItem:
    """With its actions."""
    word, tone = _SAID[item.kind]
    links = [
        replace(
            _link(frame, item, action),
            is_allowed=action.name is ActionName.INSPECT or frame.can_manage,
        )
        for action in item.actions
    ]
    is_quota = item.kind in (AttentionKind.QUOTA_FULL, AttentionKind.QUOTA_HIGH)
    return LinkedItem(
        item=item,
        title=str(limit_title(item.name)) if is_quota else item.name,
        word=word,
        tone=tone,
        url=links[0].url,
        actions=links,
    )


def _link(frame: Frame, item: AttentionItem, action: Action) -> ActionLink:
    if action.name is ActionName.REDRIVE:
        url = f"{frame.url('redrive', item.name)}?{urlencode({'reason': action.target})}"
        return ActionLink(title=_("Redrive"), url=url)
    if action.name is ActionName.ACKNOWLEDGE:
        url = frame.url("change-issue", action.target)
        return ActionLink(title=_("Acknowledge"), url=url, verb="acknowledge")
    if action.name is ActionName.MUTE:
        return ActionLink(title=_("Mute"), url=frame.url("mute-alert", action.target))
    if item.kind is AttentionKind.DEAD_LETTERS:
        url = frame.url("issue", action.target)
    elif item.kind in ITEMS_OF_GROUPS:
        url = frame.url("group", item.name)
    elif item.kind in _PLACES:
        url = frame.url(_PLACES[item.kind], item.name)
    else:
        url = frame.url("usage")
    return ActionLink(title=_("Inspect"), url=url)
