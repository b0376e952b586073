"""How long events are retained: 90 days, and the newest thousand of each rule.

The newest change of a rule that is muted waits for the end of the mute, however old it is: it is
what is told then.
"""

from __future__ import annotations

from django.db import connection
from django.db.models import F, OuterRef, Q, Subquery

from mqservice.alerts.limits import EVENTS_RETAINED_MAX, EVENTS_RETAINED_MS
from mqservice.alerts.models import AlertEvent, EventState

DELETED_MAX = 10_000  # of each kind at a time

_TOO_MANY = """
SELECT event.id FROM alerts_alertevent AS event
JOIN alerts_alertrule AS rule ON rule.id = event.rule_id
WHERE event.number <= rule.change_count - %s
LIMIT %s
"""


def delete_old_events(now_ms: int) -> int:
    """The number of rows that went, notifications among them. What is left waits for next time."""
    old = AlertEvent.objects.filter(at_ms__lt=now_ms - EVENTS_RETAINED_MS).order_by("at_ms")
    changes = AlertEvent.objects.filter(rule=OuterRef("rule")).exclude(state=EventState.TEST.value)
    newest = Subquery(changes.order_by("-number").values("pk")[:1])
    old = old.exclude(~Q(rule__told_state=F("rule__state")), pk=newest)
    ids = set(old.values_list("id", flat=True)[:DELETED_MAX])
    with connection.cursor() as cursor:
        cursor.execute(_TOO_MANY, (EVENTS_RETAINED_MAX, DELETED_MAX))
        ids.update(row[0] for row in cursor.fetchall())
    deleted_count, _ = AlertEvent.objects.filter(pk__in=ids).delete()
    return deleted_count
