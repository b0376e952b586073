"""Refusals of the services in the reader's language; REST sends the same ones in English.

    Problem ──▶ [problem_text] ── the text of ``TEXTS`` that it was made of ──▶ its translation

A service words its refusal once, where it refuses. What pages can translate is listed here; any
other text is shown as it is. A test makes the common forms fail, so a new wording is noticed.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from django.utils.translation import get_language, gettext

from mqservice.lib.problem import Problem
from mqservice.lib.settings_table import gettext_noop

TEXTS: Final = (
    # Names
    gettext_noop("a name must not be empty"),
    gettext_noop("a name must have at most %(most)s characters"),
    gettext_noop("a name may contain only the characters a-z A-Z 0-9 _ -"),
    gettext_noop("%(name)s stands for the namespace of the API key"),
    gettext_noop("names with this prefix are reserved"),
    gettext_noop("the name %(name)s is already in use"),
    # Values and ranges of settings
    gettext_noop("is missing"),
    gettext_noop("must be in [%(low)s, %(high)s]"),
    gettext_noop("must be in [%(low)s, %(high)s] percent for kind: disk"),
    gettext_noop("must be in [%(low)s, %(high)s] per second"),
    gettext_noop("must be a whole number"),
    gettext_noop("must be a number"),
    gettext_noop("must be a duration such as 500ms, 30s, 12h or 7d"),
    gettext_noop("must be %(low)s to %(high)s long"),
    gettext_noop("must be %(low)s to %(high)s, or null for never"),
    gettext_noop("must end %(low)s to %(high)s from now"),
    gettext_noop("must be a time such as 2026-12-01T08:00:00.000Z"),
    gettext_noop("must be one of %(values)s"),
    gettext_noop("must have %(low)s to %(high)s items"),
    gettext_noop("must have at most %(most)s characters"),
    gettext_noop("must be %(low)s to %(high)s printable characters"),
    gettext_noop("must be one line of at most %(most)s characters"),
    gettext_noop("must not contain the character NUL"),
    gettext_noop("must be an object"),
    gettext_noop("must be an email address"),
    gettext_noop("cannot be decreased: the topic has %(count)s"),
    gettext_noop("is missing: a list policy needs delays or delays_ms"),
    gettext_noop("a duration such as 500ms, 30s, 15m, 12h or 7d"),
    # Alerts
    gettext_noop("is not allowed with kind: disk"),
    gettext_noop("is missing; kind: %(kind)s watches a group"),
    gettext_noop("is missing; webhook_format: pagerduty needs an integration key"),
    gettext_noop("must start with https://"),
    gettext_noop("must not lead to an address that is not public"),
    gettext_noop("must not contain a user name or password"),
    gettext_noop("is not a URL"),
    gettext_noop("has no host"),
    gettext_noop("this alert notifies nobody: give it emails or a webhook"),
    gettext_noop("this alert was tested a moment ago; wait ten seconds"),
    # Why a webhook did not get a notification
    gettext_noop("its host name cannot be resolved"),
    gettext_noop("its certificate is not valid: %(why)s"),
    gettext_noop("it took longer than %(ms)s ms"),
    gettext_noop("the connection failed: %(why)s"),
    gettext_noop("it did not respond in HTTP"),
    gettext_noop("it responded with %(status)s"),
    # Schedules
    gettext_noop("must be an IANA time zone, such as UTC or Europe/Berlin"),
    gettext_noop("must not contain a time zone: set it in time_zone"),
    gettext_noop(
        "must have five fields, found %(count)s: "
        "minute hour day month weekday, such as 0 9 * * mon-fri"
    ),
    gettext_noop(
        "must not have a field for seconds, at most once a minute is possible: "
        "minute hour day month weekday, such as 0 9 * * mon-fri"
    ),
    gettext_noop("is invalid in %(field)s: minute hour day month weekday, such as 0 9 * * mon-fri"),
    # Messages
    gettext_noop("a tag %(fault)s"),
    gettext_noop("a key %(fault)s"),
    gettext_noop("a reason %(fault)s"),
    gettext_noop("a message group %(fault)s"),
    gettext_noop("must not be blank"),
    gettext_noop("must not contain control characters"),
    gettext_noop("must have at most %(most)s bytes in UTF-8"),
    gettext_noop("must not contain |, which separates tags in a filter"),
    gettext_noop("must not contain white space, which separates keys in the store"),
    gettext_noop("a message has at most %(most)s keys"),
    gettext_noop("a message has at most %(most)s properties"),
    gettext_noop("the names and values take %(bytes)s bytes, at most %(most)s fit"),
    gettext_noop("a property's name must not be blank"),
    gettext_noop("this property name is reserved"),
    gettext_noop("a property must not contain control characters"),
    gettext_noop("the body is empty"),
    gettext_noop("the body has %(bytes)s bytes, but topic %(topic)s takes at most %(most)s"),
    gettext_noop("the body has %(bytes)s bytes, a schedule's message has at most %(most)s"),
    gettext_noop("a message to a fifo topic needs a message group"),
    gettext_noop("a normal topic takes no messages with a message group"),
    gettext_noop(
        "a message to a delay topic needs one of delay_level, delay, delay_ms and deliver_at"
    ),
    gettext_noop("a %(kind)s topic takes no delayed messages; use a delay or mixed topic"),
    gettext_noop("a delay must be a whole number and a unit, such as 500ms, 30s, 15m, 12h or 7d"),
    gettext_noop("a delivery time must be in RFC 3339, such as 2026-12-01T08:00:00.000Z"),
    gettext_noop("a delay must not be negative and must be at most %(days)s days ahead"),
    gettext_noop("to is %(ms)s ms before from"),
    # Masking and saved searches
    gettext_noop("must be a topic's name, or the start of names and a *, such as payments-*"),
    gettext_noop("must be a property's name, or the start of names and a *"),
    gettext_noop(
        "a path must start with / and have at most %(most)s characters, such as /card/number"
    ),
    gettext_noop("must say where to look: topic:NAME, group:NAME, or a key or an ID"),
    # Keys and members
    gettext_noop("the role %(role)s does not permit %(scope)s"),
    gettext_noop("the key %(key)s was revoked; create another one"),
    gettext_noop("this is the last owner; make another member an owner first"),
    gettext_noop("%(name)s is already a member"),
    # Conflicts, what is gone, quotas, outages
    gettext_noop("%(name)s can no longer be cancelled: it is %(state)s"),
    gettext_noop("%(name)s does not exist in %(namespace)s"),
    gettext_noop("the topic no longer exists"),
    gettext_noop("the group no longer exists"),
    gettext_noop("%(name)s has just been deleted"),
    gettext_noop("%(name)s is read-only since %(since)s; nothing in it can be changed"),
    gettext_noop(
        "the tenant has %(count)s topics, which is over its limit of %(most)s; delete some first"
    ),
    gettext_noop(
        "the tenant has %(count)s groups, which is over its limit of %(most)s; delete some first"
    ),
    gettext_noop("a namespace has at most %(most)s alerts; delete one first"),
    gettext_noop("a namespace has at most %(most)s schedules; delete one first"),
    gettext_noop("a namespace has at most %(most)s masking rules; delete one first"),
    gettext_noop("a namespace has at most %(most)s shared searches; delete one first"),
    gettext_noop("a tenant has at most %(most)s keys; revoke one first"),
    gettext_noop("a tenant has at most %(most)s members; remove one first"),
    gettext_noop("a tenant has at most %(most)s open invitations; withdraw one first"),
    gettext_noop(
        "%(most)s tasks are in progress in %(namespace)s already, which is the limit; "
        "wait until one has finished, or cancel one"
    ),
    gettext_noop(
        "the tenant stores %(bytes)s bytes, over its limit of %(most)s: delete topics, shorten "
        "their retention, cancel scheduled messages, or wait"
    ),
    gettext_noop("the tenant's limit of %(what)s is used up: %(limits)s"),
    gettext_noop("too many %(what)s; try again later"),
    gettext_noop("the storage engine's disk is full"),
    gettext_noop("too many bytes are waiting for the disk"),
    gettext_noop("the storage engine is stopping"),
    gettext_noop("the storage engine is not responding"),
    gettext_noop("the namespace is being moved to another shard"),
    # Titles of refusals that say no more
    gettext_noop("Topic not found"),
    gettext_noop("Group not found"),
    gettext_noop("Message not found"),
    gettext_noop("Already delivered"),
    gettext_noop("Quota exceeded"),
    gettext_noop("Too many requests"),
    gettext_noop("Storage engine unavailable"),
    # What was given, behind any of the others
    gettext_noop("%(fault)s, found %(found)s"),
)
_PLACE: Final = re.compile(r"/\S*: ")  # in front of a fault that stands without its field
_PART: Final = re.compile(r"%\((\w+)\)s")


def problem_text(problem: Problem) -> str:
    """What is wrong, for the reader of a page."""
    return in_words(problem.detail or problem.title)


def in_words(text: str) -> str:
    """A refusal in the language of the page; as it is where nobody has translated it."""
    if (get_language() or "en").startswith("en"):
        return text
    place = _PLACE.match(text)
    start = place.end() if place else 0
    return text[:start] + (_translated(text[start:]) or text[start:])


def _translated(text: str) -> str | None:
    """None: it was made of none of ``TEXTS``."""
    for pattern, source in _patterns():
        if match := pattern.fullmatch(text):
            return _filled(source, match.groupdict())
    return None


def _filled(source: str, parts: dict[str, str]) -> str | None:
    """The translation of ``source``. None: the fault within it is of none of ``TEXTS``."""
    if "fault" in parts:
        inner = _translated(parts["fault"])
        if inner is None:
            return None
        parts["fault"] = inner
    return gettext(source) % parts if parts else gettext(source)


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    found = []
    for source in TEXTS:
        pieces = _PART.split(source)
        shape = "".join(
            f"(?P<{piece}>.+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)
        )
        found.append((re.compile(shape, re.DOTALL), source))
    return found
