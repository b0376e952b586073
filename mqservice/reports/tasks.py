"""Celery tasks for reports. The scheduler sweeps; missed nights are made up for.

beat ──▶ sweep ── a due run ──▶ make(run id), in a worker with one slot ──▶ Spark
             └── mails that are due ──▶ mail(mail id)
"""

from __future__ import annotations

from django.conf import settings

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.reports.emails import claim_mails, drop_old_mails, send_mail
from mqservice.reports.limits import MAIL_CLAIM_MS, MAIL_LIMIT_S, QUEUED_MS
from mqservice.reports.make_reports import take_run
from mqservice.reports.results import drop_old
from mqservice.reports.runs import drop_old_runs, find_due, make_nights, plan_of_settings

_MARGIN_S = 10 * 60  # to export and to load, beside Spark's own limit


@app.task(name="reports.sweep", soft_time_limit=10, time_limit=15)
def sweep() -> None:
    """Note the nights that are due, and ask for the run whose turn it is."""
    now_ms = SystemClock().now_ms()
    plan = plan_of_settings()
    if plan is not None:
        make_nights(plan, now_ms)
    public_id = find_due(now_ms)
    if public_id is not None:
        make.apply_async((public_id,), expires=QUEUED_MS / SECOND_MS)
    for mail_id in claim_mails(now_ms):
        # Begun late it expires, so that it has ended when its claim does.
        mail.apply_async((mail_id,), expires=MAIL_CLAIM_MS / SECOND_MS - MAIL_LIMIT_S)


@app.task(
    name="reports.make",
    soft_time_limit=settings.MQ_REPORTS_LIMIT_S + _MARGIN_S,
    time_limit=settings.MQ_REPORTS_LIMIT_S + _MARGIN_S + 60,
)
def make(public_id: str) -> None:
    """Make the reports of one run."""
    take_run(public_id, SystemClock())


@app.task(name="reports.mail", soft_time_limit=MAIL_LIMIT_S - 10, time_limit=MAIL_LIMIT_S)
def mail(mail_id: int) -> None:
    """Send the summary of a night to one address."""
    send_mail(mail_id, SystemClock())


@app.task(name="reports.clean_up", soft_time_limit=25, time_limit=30)
def clean_up() -> None:
    """Forget what is older than it is kept."""
    drop_old(SystemClock().now_ms())
    drop_old_runs()
    drop_old_mails()
