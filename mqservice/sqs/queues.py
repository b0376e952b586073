"""What the messages' side of the SQS face asks of a topic that is a queue."""

from __future__ import annotations

from mqservice.sqs.errors import no_such_queue
from mqservice.sqs.queue_names import queue_name
from mqservice.sqs.request import SqsRequest
from mqservice.topics.routes import TopicRoute
from mqservice.topics.settings import MessageType


def is_fifo(route: TopicRoute) -> bool:
    return route.message_type == MessageType.FIFO


def require_queue(request: SqsRequest, route: TopicRoute) -> None:
    """Raises SqsError unless the topic is known to SQS by the name that the request has."""
    if queue_name(route.name, is_fifo=is_fifo(route)) != request.queue.name:
        raise no_such_queue()
