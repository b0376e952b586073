"""Celery tasks: delete expired keys."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from mqservice.celery import app
from mqservice.idempotency.middleware import WINDOW
from mqservice.idempotency.models import AnsweredRequest

_DELETED_PER_CALL: Final = 5_000


@app.task(name="idempotency.clean_up", soft_time_limit=25, time_limit=30)
def clean_up() -> None:
    """Drop the oldest answers whose window is over, so many at a time."""
    old = AnsweredRequest.objects.filter(created_at__lt=timezone.now() - WINDOW)
    ids = list(old.order_by("created_at").values_list("pk", flat=True)[:_DELETED_PER_CALL])
    AnsweredRequest.objects.filter(pk__in=ids).delete()
