"""Celery tasks for users: delete expired sessions, and accounts that were never verified.

An address that a stranger has signed up with is free again after ``UNVERIFIED_DAYS``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.utils import timezone

from mqservice.accounts.models import User
from mqservice.celery import app

UNVERIFIED_DAYS: Final = 7
_DELETED_PER_CALL: Final = 5_000


@app.task(name="people.clean_up", soft_time_limit=25, time_limit=30)
def clean_up() -> None:
    """Drop what is over, so many at a time."""
    now = timezone.now()
    sessions = Session.objects.filter(expire_date__lt=now).values_list("pk", flat=True)
    keys = list(sessions[:_DELETED_PER_CALL])
    UserSession.objects.filter(session_key__in=keys).delete()
    Session.objects.filter(pk__in=keys).delete()
    unverified = EmailAddress.objects.filter(
        verified=False,
        user__last_login=None,
        user__memberships=None,
        user__date_joined__lt=now - timedelta(days=UNVERIFIED_DAYS),
    ).exclude(user__in=EmailAddress.objects.filter(verified=True).values("user"))
    users = list(unverified.values_list("user", flat=True)[:_DELETED_PER_CALL])
    User.objects.filter(pk__in=users).delete()
