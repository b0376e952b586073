"""Celery tasks for reports. The scheduler sweeps; missed nights are made up for.

beat ──▶ sweep ── a due run ──▶ make(run id), in a worker with one slot ──▶ Spark
             └── mails that are due ──▶ mail(mail id)
"""

from __future__ import annotations

from django.conf import settings

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.reports.emails import claim_emails, delete_old_emails, send_email
from mqservice.reports.limits import EMAIL_CLAIM_MS, EMAIL_LIMIT_S, QUEUED_MS
from mqservice.reports.make_reports import run_reports
from mqservice.reports.results import delete_old
from mqservice.reports.runs import create_due_runs, delete_old_runs, find_due, plan_of_settings

_MARGIN_S = 10 * 60  # to export and to load, beside Spark's own limit


@app.task(name="reports.sweep", soft_time_limit=10, time_limit=15)
def sweep() -> None:
    """Note the nights that are due, and ask for the run whose turn it is."""
    now_ms = SystemClock().now_ms()
    plan = plan_of_settings()
    if plan is not None:
        create_due_runs(plan, now_ms)
    public_id = find_due(now_ms)
    if public_id is not None:
        make.apply_async((public_id,), expires=QUEUED_MS / SECOND_MS)
    for mail_id in claim_emails(now_ms):
        # Begun late it expires, so that it has ended when its claim does.
        mail.apply_async((mail_id,), expires=EMAIL_CLAIM_MS / SECOND_MS - EMAIL_LIMIT_S)


@app.task(
    name="reports.make",
    soft_time_limit=settings.MQ_REPORTS_LIMIT_S + _MARGIN_S,
    time_limit=settings.MQ_REPORTS_LIMIT_S + _MARGIN_S + 60,
)
def make(public_id: str) -> None:
    """Make the reports of one run."""
    run_reports(public_id, SystemClock())


@app.task(name="reports.mail", soft_time_limit=EMAIL_LIMIT_S - 10, time_limit=EMAIL_LIMIT_S)
def mail(mail_id: int) -> None:
    """Send the summary of a night to one address."""
    send_email(mail_id, SystemClock())


@app.task(name="reports.clean_up", soft_time_limit=25, time_limit=30)
def clean_up() -> None:
    """Forget what is older than it is kept."""
    delete_old(SystemClock().now_ms())
    delete_old_runs()
    delete_old_emails()
