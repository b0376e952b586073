"""Celery tasks for alerts. Each may run twice: a change is recorded once, a message sent once.

beat ──▶ evaluate ── changes ──▶ rows          beat ──▶ sweep ── due ──▶ send(notification id)
"""

from __future__ import annotations

from mqservice.alerts.evaluation import evaluate
from mqservice.alerts.limits import CLAIM_MS, SEND_LIMIT_S, SEND_SOFT_LIMIT_S
from mqservice.alerts.retention import delete_old_events
from mqservice.alerts.sending import claim_due, send
from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS


@app.task(name="alerts.evaluate", soft_time_limit=25, time_limit=30)
def evaluate_rules() -> None:
    """Look at every rule once."""
    evaluate(SystemClock().now_ms())


@app.task(name="alerts.sweep", soft_time_limit=10, time_limit=15)
def sweep() -> None:
    """Ask for each notification that is due, also for those whose worker is gone."""
    for notification_id in claim_due(SystemClock().now_ms()):
        send_notification.apply_async(
            (notification_id,), expires=(CLAIM_MS - SEND_LIMIT_S * SECOND_MS) / SECOND_MS
        )


@app.task(name="alerts.send", soft_time_limit=SEND_SOFT_LIMIT_S, time_limit=SEND_LIMIT_S)
def send_notification(notification_id: int) -> None:
    """Send one notification. Begun late it expires, so that it has ended when its claim does."""
    send(notification_id, SystemClock())


@app.task(name="alerts.clean_up", soft_time_limit=25, time_limit=30)
def clean_up() -> None:
    """Drop events that are older than they are kept, and the oldest of too many."""
    delete_old_events(SystemClock().now_ms())
