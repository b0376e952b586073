"""What a text may mean, for the page of the search and for the palette.

    text ──▶ a message by its ID ──▶ topics, groups ──▶ actions ──▶ pages ──▶ messages by key
             │                                                                └──▶ guides
             └── only what the user may open; each entry is a title and an address ──┘

An address leads to the content of its page, so that the next Tab is behind the navigation, and that
of a form to its first field; that of a search leads to its top, where the first message found has
the focus. An action on a topic or a
group is its first words and a part of the name: ``publish ord``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.db.models import QuerySet, Value
from django.db.models.functions import Lower, StrIndex
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override

from mqservice.accounts.roles import Permission
from mqservice.console.guide.pages import find_headings, guide_pages, guide_url
from mqservice.console.messages.explorer import explorer_url, parsed
from mqservice.console.shared.frame import Frame
from mqservice.console.shared.navigation import QUICK_START, SECTIONS, Text
from mqservice.delivery.reading.message_query import written
from mqservice.groups.models import ConsumerGroup
from mqservice.topics.models import Topic

CONTENT: Final = "#main"
ACTION_WORDS_MAX: Final = 3  # as in "reset offsets of"
NAMED_ACTIONS_MAX: Final = 4  # names that one action is offered for
_ID: Final = re.compile(r"[0-9A-Fa-f]{32}(?:[0-9A-Fa-f]{2})?")  # ours have 34 digits, RocketMQ's 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A place to go. ``title`` may be a name that a tenant chose."""

    title: str
    url: str


def _to_content(title: str, url: str) -> Entry:
    return Entry(title=title, url=url + CONTENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryGroup:
    """Entries of one kind, the best first."""

    title: str
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class Action:
    """A page on which something is done; in the title of one on a topic or a group, ``%(name)s``.

    ``query``: the parameter that has the name, where the path has none. ``begin``: the id of what
    gets the focus there.
    """

    title: Text
    path: str
    needs: Permission
    query: str = ""
    begin: str = ""


ACTIONS: Final = (
    Action(gettext_lazy("New topic"), "new-topic", Permission.SETTINGS_MANAGE, begin="id_name"),
    Action(gettext_lazy("New group"), "new-group", Permission.SETTINGS_MANAGE, begin="id_name"),
    Action(
        gettext_lazy("New schedule"), "new-schedule", Permission.SETTINGS_MANAGE, begin="id_name"
    ),
    Action(gettext_lazy("New alert"), "new-alert", Permission.SETTINGS_MANAGE),
    Action(gettext_lazy("New API key"), "new-key", Permission.KEYS_MANAGE, begin="id_name"),
    Action(
        gettext_lazy("New masking rule"), "new-mask", Permission.MASKING_MANAGE, begin="id_name"
    ),
    Action(gettext_lazy("Invite a member"), "invite", Permission.MEMBERS_MANAGE, begin="id_email"),
    Action(gettext_lazy("Live tail"), "tail", Permission.CONSUME),
)
TOPIC_ACTIONS: Final = (
    Action(gettext_lazy("Publish to %(name)s"), "publish", Permission.PRODUCE, begin="id_body"),
    Action(gettext_lazy("Messages of %(name)s"), "topic-messages", Permission.CONSUME),
    Action(gettext_lazy("Live tail of %(name)s"), "tail", Permission.CONSUME, query="topic"),
    Action(gettext_lazy("Edit %(name)s"), "edit-topic", Permission.SETTINGS_MANAGE),
    Action(gettext_lazy("Purge %(name)s"), "purge-topic", Permission.SETTINGS_MANAGE),
    Action(gettext_lazy("Delete %(name)s"), "delete-topic", Permission.SETTINGS_MANAGE),
)
GROUP_ACTIONS: Final = (
    Action(gettext_lazy("Dead letters of %(name)s"), "group-dead-letters", Permission.CONSUME),
    Action(gettext_lazy("Reset offsets of %(name)s"), "reset-group", Permission.SETTINGS_MANAGE),
    Action(gettext_lazy("Edit %(name)s"), "edit-group", Permission.SETTINGS_MANAGE),
    Action(gettext_lazy("Delete %(name)s"), "delete-group", Permission.SETTINGS_MANAGE),
    Action(
        gettext_lazy("Alert on %(name)s"), "new-alert", Permission.SETTINGS_MANAGE, query="group"
    ),
)


def entries_for(frame: Frame, text: str, names_max: int) -> list[EntryGroup]:
    """Groups that have entries; pages and actions alone without a text. Eight queries at most.

    Args:
        names_max: of topics, and of groups.
    """
    words = text.lower().split()
    topics = frame.namespace.topics.all() if words else Topic.objects.none()
    groups = frame.namespace.groups.all() if words else ConsumerGroup.objects.none()
    found = [
        EntryGroup(title=_("Messages"), entries=_by_id(frame, text)),
        EntryGroup(title=_("Topics"), entries=_named(frame, "topic", topics, words, names_max)),
        EntryGroup(title=_("Groups"), entries=_named(frame, "group", groups, words, names_max)),
        EntryGroup(title=_("Actions"), entries=_actions(frame, topics, groups, words)),
        EntryGroup(title=_("Pages"), entries=_pages(frame, words)),
        EntryGroup(title=_("Search messages"), entries=_searches(frame, text)),
        EntryGroup(title=_("Guides"), entries=_guides(text, names_max)),
    ]
    return [each for each in found if each.entries]


def guide_entries_for(frame: Frame | None, text: str, guides_max: int) -> list[EntryGroup]:
    """Groups that have entries: guides, without a text the first ones of the contents, and the
    pages of the frame's namespace. No query.
    """
    first = list(guide_pages().values())[:guides_max] if not text else []
    guides = [_to_content(each.title, each.url) for each in first] or _guides(text, guides_max)
    found = [EntryGroup(title=_("Guides"), entries=guides)]
    if frame is not None:
        title = _("Pages of %(name)s") % {"name": frame.namespace.name}
        found.append(EntryGroup(title=title, entries=_pages(frame, text.lower().split())))
    return [each for each in found if each.entries]


def _by_id(frame: Frame, text: str) -> list[Entry]:
    if not _ID.fullmatch(text) or not frame.can_consume:
        return []
    return [_to_content(text.upper(), frame.url("trace", text.upper()))]


def _searches(frame: Frame, text: str) -> list[Entry]:
    """What the explorer finds: by a query of its own, or by a key."""
    if not text or not frame.can_consume:
        return []
    query = parsed(text)
    is_word = query is not None and (query.values.get("key") == text or query.ids == [text])
    if query is not None and not is_word and (query.topic or query.group or query.is_of_all_topics):
        return [Entry(title=text, url=explorer_url(frame, text))]
    title = _("Messages with the key %(key)s") % {"key": text}
    return [Entry(title=title, url=explorer_url(frame, written("key", text)))]


def _named(
    frame: Frame,
    view: str,
    rows: QuerySet[Topic] | QuerySet[ConsumerGroup],
    words: list[str],
    limit: int,
) -> list[Entry]:
    return [_to_content(name, frame.url(view, name)) for name in _names(rows, words, limit)]


def _names(
    rows: QuerySet[Topic] | QuerySet[ConsumerGroup], words: list[str], limit: int
) -> list[str]:
    """With all the words in them. What begins with the first one comes first: only so many are
    shown.
    """
    if not words:
        return []
    for word in words:
        rows = rows.filter(name__icontains=word)
    place = StrIndex(Lower("name"), Value(words[0]))
    return list(rows.order_by(place, "name").values_list("name", flat=True)[:limit])


def _actions(
    frame: Frame,
    topics: QuerySet[Topic],
    groups: QuerySet[ConsumerGroup],
    words: list[str],
) -> list[Entry]:
    permitted = [each for each in ACTIONS if frame.principal.permits(each.needs)]
    found = [
        _to_action(each, str(each.title), frame.url(each.path))
        for each in permitted
        if _has_words(each.title, words)
    ]
    for actions, rows in ((TOPIC_ACTIONS, topics), (GROUP_ACTIONS, groups)):
        permitted = [each for each in actions if frame.principal.permits(each.needs)]
        found += _named_actions(frame, permitted, rows, words)
    return found


def _named_actions(
    frame: Frame,
    actions: list[Action],
    rows: QuerySet[Topic] | QuerySet[ConsumerGroup],
    words: list[str],
) -> list[Entry]:
    """As many words as can be are of the action, the others of the name."""
    for count in range(min(ACTION_WORDS_MAX, len(words) - 1), 0, -1):
        meant = [each for each in actions if _has_words(each.title, words[:count])]
        names = _names(rows, words[count:], NAMED_ACTIONS_MAX) if meant else []
        if names:
            return [_named_action(frame, each, name) for name in names for each in meant]
    return []


def _named_action(frame: Frame, action: Action, name: str) -> Entry:
    title = str(action.title) % {"name": name}
    if action.query:
        url = f"{frame.url(action.path)}?{urlencode({action.query: name})}"
        return _to_action(action, title, url)
    return _to_action(action, title, frame.url(action.path, name))


def _to_action(action: Action, title: str, url: str) -> Entry:
    return Entry(title=title, url=f"{url}#{action.begin}" if action.begin else url + CONTENT)


def _pages(frame: Frame, words: list[str]) -> list[Entry]:
    """Pages of the navigation and beside it, and the user's other namespaces."""
    tabs = [tab for section in SECTIONS for place in section.places for tab in place.tabs]
    places: list[tuple[Text, str]] = [
        (tab.title, reverse(tab.url, args=[frame.namespace.name]))
        for tab in (*tabs, QUICK_START)
        if frame.principal.permits(tab.needs)
    ]
    places += [
        (gettext_lazy("Guides"), reverse("guide")),
        (gettext_lazy("API reference"), reverse("docs")),
        (gettext_lazy("Your account"), reverse("people:account")),
    ]
    if frame.user.is_superuser:
        places.append((gettext_lazy("Operator"), reverse("console:operator")))
    found = [_to_content(str(title), url) for title, url in places if _has_words(title, words)]
    return found + [
        _to_content(
            _("Namespace %(name)s") % {"name": each.name},
            reverse("console:namespace", args=[each.name]),
        )
        for each in frame.namespaces
        if each.name != frame.namespace.name and words and _contains([each.name], words)
    ]


def _guides(text: str, limit: int) -> list[Entry]:
    return [
        Entry(title=title, url=guide_url(target) + ("" if "#" in target else CONTENT))
        for title, target in find_headings(text, limit)
    ]


def _has_words(title: Text, words: list[str]) -> bool:
    """Whether the title has them, in the user's language or in English."""
    with override("en"):
        english = str(title)
    return _contains([str(title), english], words)


def _contains(texts: Iterable[str], words: list[str]) -> bool:
    said = [text.replace("%(name)s", "").lower() for text in texts]
    return any(all(word in text for word in words) for text in said)
