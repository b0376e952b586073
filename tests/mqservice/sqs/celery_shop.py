"""An application of Celery on ``sqs://``, as people have it: tasks that write down what they did.

    python -m tests.mqservice.sqs.celery_shop 300     sends so many tasks
    celery -A tests.mqservice.sqs.celery_shop worker  does them

SHOP_BROKER, SHOP_QUEUES (as JSON, predefined ones) and SHOP_LOG (a file) are in the environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from celery import Celery, Task

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "region": "eu-central-1",
        "is_secure": False,
        "visibility_timeout": 6,
        "polling_interval": 0.1,
        "wait_time_seconds": 2,
        **(
            {"predefined_queues": json.loads(os.environ["SHOP_QUEUES"])}
            if "SHOP_QUEUES" in os.environ
            else {}
        ),
    },
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_default_queue="shop",
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    worker_prefetch_multiplier=4,
)
LOG = Path(os.environ["SHOP_LOG"])


@app.task(bind=True, max_retries=5, name="order")
def order(self: Task[Any, Any], number: int) -> None:  # Any: of every task
    """Each seventh fails at first, and is tried again a second later."""
    if number % 7 == 0 and not self.request.retries:
        raise self.retry(countdown=1)
    with LOG.open("a") as log:
        log.write(f"{number} {self.request.retries}\n")


def send(count: int) -> None:
    for number in range(count):
        # Each tenth is to be done two seconds later.
        order.apply_async((number,), countdown=2 if number % 10 == 9 else 0)


if __name__ == "__main__":
    send(int(sys.argv[1]))
