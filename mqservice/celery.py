"""Background work: the Celery application, its queues, and what beat sends.

    beat (one leader) ──tick──▶ Valkey ──▶ worker ──▶ one service call

Queues: ``control`` short duties, ``delay`` due messages, ``persist`` offsets and checkpoints,
``tasks`` turns of
what tenants ordered, ``analytics`` long jobs. Tasks carry ids, never message bodies, and may be
lost: the next tick does what the lost one meant.
"""

from __future__ import annotations

import os
from typing import Any, Final

from celery import Celery, signals
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")

from django.conf import settings

QUEUES: Final = ("control", "delay", "persist", "tasks", "analytics")
CHECKPOINT_SECONDS: Final = 5.0
SAMPLE_SECONDS: Final = 10.0
SWEEP_SECONDS: Final = 1.0  # a new task begins, or goes on at its rate, that late at most

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
        "monitoring.checkpoint_engine": {"queue": "persist"},
        "tasks.advance": {"queue": "tasks"},
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
    # runs.
    broker_transport_options={"visibility_timeout": 4 * 60 * 60},
    # Without a pool each task would open a connection; this many share one.
    CELERY_DB_REUSE_MAX=100,
    beat_scheduler="mqservice.scheduler:LeaderScheduler",
    beat_max_loop_interval=1,
    # ``expires``: ticks that piled up while no worker ran are worth nothing.
    beat_schedule={
        "checkpoint_engine": {
            "task": "monitoring.checkpoint_engine",
            "schedule": CHECKPOINT_SECONDS,
            "options": {"expires": CHECKPOINT_SECONDS},
        },
        "sweep_tasks": {
            "task": "tasks.sweep",
            "schedule": SWEEP_SECONDS,
            "options": {"expires": SWEEP_SECONDS},
        },
        "record_heartbeat": {
            "task": "monitoring.record_heartbeat",
            "schedule": SAMPLE_SECONDS,
            "options": {"expires": SAMPLE_SECONDS},
        },
        "record_sample": {
            "task": "monitoring.record_sample",
            "schedule": SAMPLE_SECONDS,
            "options": {"expires": SAMPLE_SECONDS},
        },
    },
)
app.autodiscover_tasks(["mqservice.monitoring", "mqservice.tasks"])


@signals.setup_logging.connect
def keep_django_logging(**kwargs: Any) -> None:  # Any: the signal's own signature
    """Being connected is enough: Celery then leaves the log settings of Django as they are."""
