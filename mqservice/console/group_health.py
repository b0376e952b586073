"""Why a group gets no messages, or fewer than it could: only what the engine reports.

    GroupPage ──▶ [findings_of] ──▶ Findings, what matters most first

The engine knows members, leases, filters and pauses. It does not know what a consumer does with a
message, nor what REST consumers that are silent wait for: findings say so rather than guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mqservice.console.group import GroupPage, MemberRow, TopicPart
from mqservice.console.templatetags.units import age, count
from mqservice.groups.models import ConsumerGroup, Dispatch
from mqservice.lib.durations import MINUTE_MS

SKEW_TIMES: Final = 4  # as far behind as its share would be
SKEW_LAG_MIN: Final = 100
STUCK_MS: Final = 10 * MINUTE_MS
NAMED_MAX: Final = 5  # queues or members that a finding names


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``level``: bad where nothing comes, unsure for hints, plain for what is as it should be."""

    level: str
    title: str
    text: str = ""


def findings_of(page: GroupPage) -> list[Finding]:
    """Of a page; empty when everything flows."""
    if not page.is_known:
        text = _("Members, leases and offsets are the engine's. What they are now is not known.")
        return [Finding(level="bad", title=_("The storage engine does not answer"), text=text)]
    found = []
    if page.group.is_paused:
        text = _("It gets nothing until it is resumed; what it holds can be settled.")
        found.append(Finding(level="bad", title=_("The group is paused"), text=text))
    if not page.parts:
        text = _(
            "It begins to read a topic when its first consumer asks for messages. Until then its "
            "lag is unknown."
        )
        return [*found, Finding(level="plain", title=_("No topic was read yet"), text=text)]
    for part in page.parts:
        found += _expired(part) + _filter(part)
        if part.left:
            found += _why_nothing(page.group, part)
            found += _hints(part, page.figures.out_per_s)
        elif part.lag.count:
            title = _("%(topic)s: all that is left waits for a retry") % {"topic": part.name}
            text = _("Failed messages come again after their delay.")
            found.append(Finding(level="plain", title=title, text=text))
    if page.figures.lag == 0 and not any(each.level != "plain" for each in found):
        found.append(Finding(level="plain", title=_("Everything is settled")))
    return sorted(found, key=lambda each: ("bad", "unsure", "plain").index(each.level))


def _expired(part: TopicPart) -> list[Finding]:
    if part.lost:
        text = _(
            "Messages were kept for too short a time, or consumers were away for too long. The "
            "group goes on at the first message that is still there."
        )
        title = ngettext(
            "%(topic)s: %(count)s message expired before it was settled",
            "%(topic)s: %(count)s messages expired before they were settled",
            part.lost,
        ) % {"topic": part.name, "count": count(part.lost)}
        return [Finding(level="bad", title=title, text=text)]
    soon = [queue.expires_in_ms for queue in part.queues if queue.expires_in_ms is not None]
    if not soon:
        return []
    told = {"topic": part.name, "time": age(min(soon))}
    title = _("%(topic)s: the oldest message may expire in %(time)s") % told
    text = _("Add consumers, or let the topic keep messages longer.")
    return [Finding(level="unsure", title=title, text=text)]


def _filter(part: TopicPart) -> list[Finding]:
    """With a filter that matches nothing everything is settled, and nothing was delivered."""
    if not part.filter:
        return []
    title = _("%(topic)s: read through the filter %(filter)s") % {
        "topic": part.name,
        "filter": part.filter[:200],
    }
    text = _("Only what matches is delivered and counts as lag; the rest counts as settled.")
    return [Finding(level="plain", title=title, text=text)]


def _why_nothing(group: ConsumerGroup, part: TopicPart) -> list[Finding]:
    """Of a topic with unsettled messages."""
    told = {"topic": part.name}
    if not part.member_count:
        text = _("Nobody was heard of for two minutes. Messages wait until a consumer asks.")
        return [Finding(level="bad", title=_("%(topic)s: no consumer") % told, text=text)]
    found = []
    if part.is_held_up:
        text = _(
            "As many messages are in flight on a queue as may be. Others follow as these are "
            "settled, or their leases end."
        )
        title = _("%(topic)s: held up by what is in flight") % told
        found.append(Finding(level="bad", title=title, text=text))
    if part.unassigned:
        behind = {queue.queue_id for queue in part.queues if queue.left}
        left = [at for at in part.unassigned if at in behind]
        if left:
            title = _("%(topic)s: nobody reads queue %(queues)s") % {
                **told,
                "queues": _listed(left),
            }
            text = _("The assignment gives it to no member: see the strategy and its settings.")
            found.append(Finding(level="bad", title=title, text=text))
    if not part.ready and part.inflight:
        text = _("They come again when they fail or their leases end; held by %(members)s.")
        text %= {"members": _holders(part.members)}
        title = _("%(topic)s: all that is left is in flight") % told
        found.append(Finding(level="plain", title=title, text=text))
    elif group.is_ordered and part.inflight:
        found.append(_in_order(group, part))
    elif part.ready and (stopped := _stopped(part.members)):
        title = _("%(topic)s: %(members)s get nothing for now") % {**told, "members": stopped}
        text = _(
            "What they say of themselves: no credit left, over a quota, or too much in flight."
        )
        found.append(Finding(level="bad", title=title, text=text))
    elif part.ready and not any(member.is_waiting for member in part.members):
        text = _(
            "Members are there but none waits for messages: one over REST may be at work between "
            "two receives, one on a socket may have no credit left, or be over a quota."
        )
        title = _("%(topic)s: nobody is asking right now") % told
        found.append(Finding(level="unsure", title=title, text=text))
    return found


def _in_order(group: ConsumerGroup, part: TopicPart) -> Finding:
    """Messages that wait for others before them."""
    told = {"topic": part.name, "members": _holders(part.members)}
    if group.dispatch == Dispatch.EXCLUSIVE:
        busy = [queue.queue_id for queue in part.queues if queue.inflight]
        title = _("%(topic)s: queue %(queues)s waits for its batch") % {
            "topic": part.name,
            "queues": _listed(busy),
        }
        text = _(
            "An ordered group has one batch of a queue in flight; the next one follows when "
            "%(members)s has settled it, or its lease ends."
        )
    else:
        title = _("%(topic)s: message groups wait for what is in flight") % told
        text = _(
            "An ordered group has one batch of each message group in flight; the next one follows "
            "when %(members)s has settled it, or its lease ends."
        )
    return Finding(level="plain", title=title, text=text % told)


def _hints(part: TopicPart, out_per_s: float | None) -> list[Finding]:
    found = []
    worst = max(part.queues, key=lambda queue: queue.left)
    is_skewed = worst.left * len(part.queues) >= SKEW_TIMES * part.left
    if len(part.queues) > 1 and worst.left >= SKEW_LAG_MIN and is_skewed:
        percent = round(100 * worst.left / part.left)
        title = _("%(topic)s: queue %(queue)s has %(percent)s %% of the lag") % {
            "topic": part.name, "queue": worst.queue_id, "percent": percent,
        }  # fmt: skip
        text = _("Its member may be slow, or producers may send most of their messages there.")
        found.append(Finding(level="unsure", title=title, text=text))
    oldest_ms = max((queue.lag_ms or 0 for queue in part.queues), default=0)
    if oldest_ms >= STUCK_MS and out_per_s == 0 and part.member_count:
        title = _("%(topic)s: nothing was settled of late") % {"topic": part.name}
        text = _("The oldest message has waited for %(time)s, although there are consumers.")
        found.append(Finding(level="bad", title=title, text=text % {"time": age(oldest_ms)}))
    return found


def _holders(members: list[MemberRow]) -> str:
    """Who has messages in flight; the most first."""
    holding = sorted((each for each in members if each.inflight), key=lambda each: -each.inflight)
    if not holding:
        return _("consumers that have gone")
    return _listed([f"{each.name} ({each.inflight})" for each in holding])


def _stopped(members: list[MemberRow]) -> str:
    """Sockets that may get nothing, where none of the members waits for messages."""
    if any(member.is_waiting for member in members):
        return ""
    flows = {"credit": _("no credit"), "quota": _("over quota"), "inflight": _("in flight")}
    return _listed([
        f"{each.client or each.name} ({flows[each.flow]})" for each in members if each.flow in flows
    ])  # fmt: skip


def _listed(things: list[str] | list[int]) -> str:
    shown = ", ".join(map(str, things[:NAMED_MAX]))
    return f"{shown}, …" if len(things) > NAMED_MAX else shown
