"""Database connections of a worker's threads, which go from task to task."""

from __future__ import annotations

import pytest
from celery import signals
from django.db import OperationalError, ProgrammingError, connection

from mqservice import celery
from mqservice.accounts.models import Tenant


def end_connection() -> int:
    """As a restart of PostgreSQL would; the process that served the connection."""
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    return server_pid()


def server_pid() -> int:
    assert connection.connection is not None
    pid: int = connection.connection.info.backend_pid
    return pid


@pytest.mark.django_db(transaction=True)
def test_the_next_task_gets_a_new_connection_when_one_has_ended() -> None:
    ended = end_connection()
    with pytest.raises(OperationalError):
        Tenant.objects.count()
    signals.task_postrun.send(sender=celery.app)
    Tenant.objects.count()
    assert server_pid() != ended


@pytest.mark.django_db(transaction=True)
def test_the_next_task_continues_with_a_connection_that_only_saw_an_error() -> None:
    Tenant.objects.count()
    before = server_pid()
    with pytest.raises(ProgrammingError), connection.cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")
    signals.task_postrun.send(sender=celery.app)
    Tenant.objects.count()
    assert server_pid() == before
