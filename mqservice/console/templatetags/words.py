"""Words of the API as pages show them: states, kinds, outcomes. {{ task.state|word }}"""

from __future__ import annotations

from typing import Final

from django import template
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mqservice.lib.problem_words import in_words, problem_text

register = template.Library()
register.filter("problem_text", problem_text)
register.filter("in_words", in_words)

WORDS: Final[dict[str, Promise]] = {
    # Tasks, and what became of their messages
    "redrive": _("Redrive"),
    "purge": _("Deletion"),
    "pending": _("pending"),
    "running": _("running"),
    "done": _("done"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "moved": _("moved"),
    "waits": _("waiting"),
    "purged_or_gone": _("deleted or already removed"),
    "gone": _("removed before it was processed"),
    "not_found": _("dead letter not found"),
    "no_topic": _("topic does not exist"),
    "damaged": _("cannot be read from disk"),
    # The road of a message
    "born": _("Produced"),
    "stored": _("Stored"),
    "delivery_failed": _("Delivery failed"),
    "ready_again": _("Ready again"),
    "dead_lettered": _("Dead-lettered"),
    "redriven": _("redriven"),
    # What a message is to a group
    "ready": _("ready"),
    "in_flight": _("in flight"),
    "waiting": _("waiting for a retry"),
    "moving": _("in transit"),
    "scheduled": _("scheduled"),
    "settled": _("settled"),
    "skipped": _("skipped by the filter"),
    "dead": _("dead letter"),
    "purged": _("deleted"),
    "expired": _("expired"),
    "unknown": _("unknown"),
    # Settings of topics and groups
    "sync": _("sync"),
    "async": _("async"),
    "replicated": _("replicated"),
    "mixed": _("mixed"),
    "normal": _("normal"),
    "fifo": _("fifo"),
    "delay": _("delay"),
    "transaction": _("transaction"),
    "shared": _("shared"),
    "exclusive": _("exclusive"),
    "broadcast": _("broadcast"),
    "earliest": _("earliest"),
    "latest": _("latest"),
    "timestamp": _("a point in time"),
    # How a group is doing
    "healthy": _("healthy"),
    "falling_behind": _("falling behind"),
    "stalled": _("stalled"),
    "no_members": _("no members"),
    "paused": _("paused"),
    "new": _("new"),
    # What an import does to a topic or group
    "created": _("created"),
    "changed": _("changed"),
    # Parts of the service
    "up": _("up"),
    "down": _("down"),
    "degraded": _("degraded"),
    # Issues
    "open": _("open"),
    "acknowledged": _("acknowledged"),
    "resolved": _("resolved"),
    "ignored": _("ignored"),
    # Who is told of an alert, and whether that worked
    "email": _("email"),
    "webhook": _("webhook"),
    "sent": _("sent"),
    # Roles
    "owner": _("owner"),
    "admin": _("admin"),
    "developer": _("developer"),
    "viewer": _("viewer"),
}

_TONES: Final = {
    "done": "good", "failed": "bad", "running": "accent", "pending": "unsure",
    "created": "good", "changed": "accent", "healthy": "good", "falling_behind": "unsure",
    "stalled": "bad", "no_members": "bad", "paused": "unsure", "unknown": "unknown",
}  # fmt: skip


@register.filter
def word(value: object) -> str:
    """The word itself where nobody has said how it reads."""
    return str(WORDS.get(str(value), value))


@register.filter
def tone(state: object) -> str:
    """How the state of a task or the health of a group is coloured."""
    return _TONES.get(str(state), "plain")


@register.simple_tag
def group_state(name: str, health: object) -> SafeString:
    """How a group is doing, which the page's socket keeps up to date."""
    return format_html(
        '<span class="badge badge-{}" data-live="g:{}:health" data-live-tone="g:{}:tone">{}</span>',
        tone(health), name, name, word(health),
    )  # fmt: skip
