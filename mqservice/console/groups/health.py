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

from mqservice.console.groups.group import GroupPage, MemberRow, TopicPart
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.durations import MINUTE_MS
from mqservice.lib.units import age, count
from mqservice.protocol.choices import Dispatch

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
        text = _(
            "Members, leases and offsets are stored by the engine, so their current state is "
            "unknown."
        )
        return [Finding(level="bad", title=_("The storage engine is not responding"), text=text)]
    found = []
    if page.group.is_paused:
        text = _(
            "It receives nothing until it is resumed. Messages in flight can still be settled."
        )
        found.append(Finding(level="bad", title=_("The group is paused"), text=text))
    if not page.parts:
        text = _(
            "The group starts to read a topic when its first consumer requests messages. Until "
            "then its lag is unknown."
        )
        return [*found, Finding(level="plain", title=_("No topic has been read yet"), text=text)]
    for part in page.parts:
        found += _expired(part) + _filter(part)
        if part.left:
            found += _explain_no_delivery(page.group, part)
            found += _hints(part, page.figures.out_per_s)
        elif part.lag.count:
            title = _("%(topic)s: all remaining messages are waiting for a retry") % {
                "topic": part.name
            }
            text = _("Failed messages are redelivered after their retry delay.")
            found.append(Finding(level="plain", title=title, text=text))
    if page.figures.lag == 0 and not any(each.level != "plain" for each in found):
        found.append(Finding(level="plain", title=_("All messages are settled")))
    return sorted(found, key=lambda each: ("bad", "unsure", "plain").index(each.level))


def _expired(part: TopicPart) -> list[Finding]:
    if part.lost:
        text = _(
            "Retention is too short, or consumers were disconnected for too long. The group "
            "continues at the first message that still exists."
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
    text = _("Add consumers, or increase the retention of the topic.")
    return [Finding(level="unsure", title=title, text=text)]


def _filter(part: TopicPart) -> list[Finding]:
    """With a filter that matches nothing everything is settled, and nothing was delivered."""
    if not part.filter:
        return []
    title = _("%(topic)s: read with the filter %(filter)s") % {
        "topic": part.name,
        "filter": part.filter[:200],
    }
    text = _("Only matching messages are delivered and count as lag; the others count as settled.")
    return [Finding(level="plain", title=title, text=text)]


def _explain_no_delivery(group: ConsumerGroup, part: TopicPart) -> list[Finding]:
    """Of a topic with unsettled messages."""
    told = {"topic": part.name}
    if not part.member_count:
        text = _("No consumer is reading. Messages wait until a consumer requests them.")
        return [Finding(level="bad", title=_("%(topic)s: no consumers") % told, text=text)]
    found = []
    if part.is_held_up:
        text = _(
            "A queue has reached its limit of messages in flight. More are delivered when these "
            "are settled or their leases expire."
        )
        title = _("%(topic)s: blocked by messages in flight") % told
        found.append(Finding(level="bad", title=title, text=text))
    if part.unassigned:
        behind = {queue.queue_id for queue in part.queues if queue.left}
        left = [at for at in part.unassigned if at in behind]
        if left:
            title = _("%(topic)s: queue %(queues)s has no consumer") % {
                **told,
                "queues": _listed(left),
            }
            text = _(
                "The assignment strategy gives it to no member. Check the strategy and its "
                "settings."
            )
            found.append(Finding(level="bad", title=title, text=text))
    if not part.ready and part.inflight:
        text = _("They are redelivered if they fail or their leases expire. Leased by %(members)s.")
        text %= {"members": _holders(part.members)}
        title = _("%(topic)s: all remaining messages are in flight") % told
        found.append(Finding(level="plain", title=title, text=text))
    elif group.is_ordered and part.inflight:
        found.append(_in_order(group, part))
    elif part.ready and (stopped := _stopped(part.members)):
        title = _("%(topic)s: %(members)s cannot receive messages now") % {
            **told,
            "members": stopped,
        }
        text = _(
            "Their connections report no credit left, an exceeded quota, or too many messages "
            "in flight."
        )
        found.append(Finding(level="bad", title=title, text=text))
    elif part.ready and not any(member.is_waiting for member in part.members):
        text = _(
            "There are members, but none is waiting for messages. A REST consumer may be "
            "working between two receives; a WebSocket consumer may have no credit left or be "
            "over quota."
        )
        title = _("%(topic)s: no consumer is requesting messages") % told
        found.append(Finding(level="unsure", title=title, text=text))
    return found


def _in_order(group: ConsumerGroup, part: TopicPart) -> Finding:
    """Messages that wait for others before them."""
    told = {"topic": part.name, "members": _holders(part.members)}
    if group.dispatch == Dispatch.EXCLUSIVE:
        busy = [queue.queue_id for queue in part.queues if queue.inflight]
        title = _("%(topic)s: queue %(queues)s is waiting for its current batch") % {
            "topic": part.name,
            "queues": _listed(busy),
        }
        text = _(
            "An ordered group has one batch per queue in flight. The next one is delivered when "
            "the batch leased by %(members)s is settled or its lease expires."
        )
    else:
        title = _("%(topic)s: message groups are waiting for messages in flight") % told
        text = _(
            "An ordered group has one batch per message group in flight. The next one is "
            "delivered when the batch leased by %(members)s is settled or its lease expires."
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
        text = _(
            "Its member may be slow, or producers may send most of their messages to this queue."
        )
        found.append(Finding(level="unsure", title=title, text=text))
    oldest_ms = max((queue.lag_ms or 0 for queue in part.queues), default=0)
    if oldest_ms >= STUCK_MS and out_per_s == 0 and part.member_count:
        title = _("%(topic)s: nothing was settled recently") % {"topic": part.name}
        text = _("The oldest message has waited for %(time)s although there are consumers.")
        found.append(Finding(level="bad", title=title, text=text % {"time": age(oldest_ms)}))
    return found


def _holders(members: list[MemberRow]) -> str:
    """Who has messages in flight; the most first."""
    holding = sorted((each for each in members if each.inflight), key=lambda each: -each.inflight)
    if not holding:
        return _("disconnected consumers")
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
