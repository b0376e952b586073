"""Background work: the Celery application, its queues, and what beat sends.

    beat (one leader) ──tick──▶ Valkey ──▶ clock, worker ──▶ one service call

Queues by duty: ``delay`` due messages, ``control`` short sweeps, both read by the clock process
alone, so that nothing long stands before a tick; ``persist`` offsets and checkpoints, ``sampling``
measurements, ``tasks`` turns of what tenants ordered, ``alerts`` rules and what they send,
``analytics`` runs of Spark, in a worker with one slot. Tasks carry ids, never message bodies, and
may be lost: the next tick does what the lost one meant.
"""

from __future__ import annotations

import os
from typing import Any, Final

from celery import Celery, signals
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")

from django.conf import settings
from django.db import connections

from mqservice.lib.tcp_timeouts import SOCKET_OPTIONS
from mqservice.lib.valkey_transport import use_shared_clients

QUEUES: Final = ("control", "delay", "persist", "sampling", "tasks", "alerts", "analytics")
# What beat sends, to which queue, every so many seconds. It expires when the next one comes: ticks
# that waited while no worker ran are worth nothing.
SCHEDULE: Final = {
    "monitoring.tick": ("delay", settings.MQ_TICK_MS / 1_000),
    "tasks.sweep": ("control", 1.0),  # a new task begins, or goes on at its rate, that late at most
    "schedules.sweep": ("control", 1.0),  # a message is sent that late at most
    "monitoring.checkpoint_engine": ("persist", 5.0),
    "monitoring.record_heartbeat": ("persist", 10.0),
    "sampling.persist_offsets": ("persist", 5.0),
    "monitoring.record_sample": ("sampling", 10.0),
    "sampling.take_samples": ("sampling", 10.0),
    "sampling.roll_up": ("sampling", 60.0),
    "sampling.save_offset_step": ("sampling", 300.0),
    "sampling.clean_up": ("sampling", 300.0),
    "issues.scan": ("sampling", 10.0),
    "issues.clean_up": ("sampling", 300.0),
    "alerts.evaluate": ("alerts", 10.0),
    "alerts.sweep": ("alerts", 2.0),  # what is to be sent begins, or is tried again, that late
    "alerts.clean_up": ("alerts", 300.0),
    "idempotency.clean_up": ("sampling", 300.0),
    "usage.measure_storage": ("sampling", 60.0),
    "usage.clean_up": ("sampling", 300.0),
    "accounts.clean_up": ("sampling", 300.0),
    "people.clean_up": ("sampling", 300.0),
    "shards.resolve_splits": ("control", 2.0),  # a split whose command is gone ends that late
    "monitoring.restore_lost_changes": ("control", 2.0),  # after a takeover, that late
    "reports.sweep": ("control", 10.0),
    "reports.clean_up": ("persist", 3_600.0),
}
# Sweeps that nearly always find nothing: beat asks PostgreSQL first, all conditions in one query,
# and sends only those that have something to do. A message and its task cost twenty times as much.
ASKED_BEFORE: Final = {
    "tasks.sweep": "mqservice.tasks.turns.ANY_DUE",
    "schedules.sweep": "mqservice.schedules.sending.ANY_DUE",
    "alerts.sweep": "mqservice.alerts.sending.ANY_DUE",
    "shards.resolve_splits": "mqservice.shards.splits.ANY_LEFT",
    "monitoring.restore_lost_changes": "mqservice.monitoring.lost_changes.ANY_DUE",
}
# Turns and sendings, each asked for by a sweep.
ASKED_FOR: Final = {
    "tasks.advance": "tasks",
    "alerts.send": "alerts",
    "reports.make": "analytics",
    "reports.mail": "alerts",
}

use_shared_clients()
app = Celery("mqservice", broker=settings.MQ_VALKEY_URL)
app.conf.update(
    accept_content=["json"],
    task_serializer="json",
    result_serializer="json",
    event_serializer="json",
    task_ignore_result=True,
    result_expires=None,
    task_queues=[Queue(name, Exchange("mqservice"), routing_key=name) for name in QUEUES],
    task_default_queue="control",
    task_default_exchange="mqservice",
    task_default_routing_key="control",
    task_create_missing_queues=False,
    task_routes={
        **{task: {"queue": queue} for task, (queue, _) in SCHEDULE.items()},
        **{task: {"queue": queue} for task, queue in ASKED_FOR.items()},
    },
    task_time_limit=60,
    task_soft_time_limit=50,
    timezone="UTC",
    enable_utc=True,
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Valkey hands a task out again when it is not acknowledged for so long: longer than any task
    # runs. A broker that vanished without a word is missed by keepalives.
    broker_transport_options={
        "visibility_timeout": 4 * 60 * 60,
        "priority_steps": [0],  # one list a queue, not four: no task has a priority
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "socket_keepalive_options": SOCKET_OPTIONS,
    },
    # Without a pool each task would open a connection; this many share one.
    CELERY_DB_REUSE_MAX=100,
    beat_scheduler="mqservice.scheduler:LeaderScheduler",
    beat_max_loop_interval=1,
    beat_schedule={
        task: {"task": task, "schedule": seconds, "options": {"expires": seconds}}
        for task, (_, seconds) in SCHEDULE.items()
    },
)
app.autodiscover_tasks(
    [
        "mqservice.monitoring",
        "mqservice.tasks",
        "mqservice.schedules",
        "mqservice.shards",
        "mqservice.sampling",
        "mqservice.issues",
        "mqservice.alerts",
        "mqservice.idempotency",
        "mqservice.usage",
        "mqservice.accounts",
        "mqservice.people",
        "mqservice.reports",
    ]
)


@signals.setup_logging.connect
def keep_django_logging(**kwargs: Any) -> None:  # Any: the signal's own signature
    """Being connected is enough: Celery then leaves the log settings of Django as they are."""


@signals.task_postrun.connect
def drop_broken_connections(**kwargs: Any) -> None:  # Any: as above
    """Celery would give the next ``CELERY_DB_REUSE_MAX`` tasks a connection that has ended."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred:
            if connection.is_usable():
                connection.errors_occurred = False
            else:
                connection.close()
