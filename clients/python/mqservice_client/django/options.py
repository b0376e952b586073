"""What ``OPTIONS`` of a backend may have, and the topics that follow from it.

    TASKS = {"default": {"BACKEND": "mqservice_client.django.TaskBackend",
                         "QUEUES": ["default", "mail"], "OPTIONS": {"max_attempts": 3}}}

A queue has three topics, for tasks of a priority above, of and below 0: a worker that has a choice
takes the higher one.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

from ..errors import UsageError
from ..values import Duration, milliseconds
from .connections import ConnectionOptions

TOPIC_RETENTION: Final = "30d"  # as long as tasks may wait for a worker
_TOPIC: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
CONNECTION: Final = frozenset({"base_url", "api_key", "namespace", "network"})


class Lane(Enum):
    """Tasks of like priority, the most urgent first; the value is what their topic ends in."""

    HIGH = "-high"
    NORMAL = ""
    LOW = "-low"

    @classmethod
    def of(cls, priority: int) -> Lane:
        if priority == 0:
            return cls.NORMAL
        return cls.HIGH if priority > 0 else cls.LOW


class BackendOptions:
    """The options of one backend, checked."""

    def __init__(
        self,
        *,
        prefix: str = "tasks",
        group: str | None = None,
        max_attempts: int = 1,
        retry: dict[str, Any] | None = None,
        deliveries_max: int = 10,
        lease: Duration = "30s",
        send_timeout: Duration = "5s",
        keep_results: Duration = "14d",
        **connection: Any,
    ) -> None:
        """
        Args:
            prefix: what the names of topics begin with; the name of the queue follows.
            group: the consumer group of the workers; by default ``prefix``.
            max_attempts: how often a task is run that raises; 1 is what Django says.
            retry: when it is run again, as for ``groups.create``; for example
                ``{"policy": "exponential", "start": "10s", "cap": "1h"}``.
            deliveries_max: after so many workers that ended during a task it is given up.
            lease: how soon the tasks of a worker that was killed run elsewhere; a worker that lives
                extends it for up to 3 hours.
            send_timeout: how long enqueuing waits for the service. The task is stored in any case;
                a worker sends what could not be sent.
            keep_results: how long rows of finished tasks are kept.
            connection: ``base_url``, ``api_key`` and ``namespace``, instead of those of
                ``settings.MQSERVICE``.

        Raises:
            ImproperlyConfigured: an option is unknown or makes no sense.
        """
        if unknown := connection.keys() - CONNECTION:
            raise ImproperlyConfigured(f"OPTIONS of TASKS have no {', '.join(sorted(unknown))}")
        if max_attempts < 1 or deliveries_max < 1:
            raise ImproperlyConfigured("max_attempts and deliveries_max must be at least 1")
        self.prefix = prefix
        self.group = group or prefix
        self.max_attempts = max_attempts
        self.retry = retry
        self.deliveries_max = deliveries_max
        self.lease = lease
        self.send_timeout = send_timeout
        try:
            milliseconds(lease, "lease")
            milliseconds(send_timeout, "send_timeout")
            self.keep_results = timedelta(milliseconds=milliseconds(keep_results, "keep_results"))
        except UsageError as exc:
            raise ImproperlyConfigured(str(exc)) from exc
        self.connection = ConnectionOptions(connection)

    def topic(self, queue_name: str, lane: Lane) -> str:
        return f"{self.prefix}-{queue_name}{lane.value}"

    def why_no_topic(self, queue_name: str) -> str:
        """For people to read; empty when the queue can have topics."""
        longest = self.topic(queue_name, Lane.HIGH)
        if _TOPIC.fullmatch(longest):
            return ""
        return (
            f"queue {queue_name!r} would have the topic {longest!r}; a topic has 1 to 64 of "
            "a-z A-Z 0-9 _ -"
        )
