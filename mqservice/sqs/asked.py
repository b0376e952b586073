"""An action on queues with who asks for it, and the queues that it means."""

from __future__ import annotations

from typing import Any, NamedTuple

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.read_only import reject_change
from mqservice.accounts.scopes import Kind, Scope
from mqservice.lib.names import OWN_NAMESPACE, name_fault
from mqservice.sqs.errors import no_such_queue
from mqservice.sqs.queue_names import (
    QueueName,
    account_of,
    queue_arn,
    queue_name,
    queue_of_url,
    queue_url,
)
from mqservice.topics.models import Topic
from mqservice.topics.queries import get_topic
from mqservice.topics.settings import MessageType


class Asked(NamedTuple):
    """One action on queues, and who asks for it."""

    principal: Principal
    wanted: Any  # Any: the struct of the action, which its function knows
    base_url: str
    region: str

    @property
    def namespace(self) -> Namespace:
        return get_namespace(self.principal, OWN_NAMESPACE)

    @property
    def account(self) -> str:
        return account_of(self.principal)

    def url_of(self, topic: Topic) -> str:
        return queue_url(self.base_url, self.account, name_of(topic))

    def arn_of(self, topic: Topic) -> str:
        return queue_arn(self.region, self.account, name_of(topic))

    def topic(self, scope: Scope | None = None) -> Topic:
        """That of the queue in the request, for one who has ``scope`` for it. Raises SqsError."""
        queue = queue_of_url(self.wanted.queue_url, self.principal)
        return self.topic_of(queue, scope)

    def topic_of(self, queue: QueueName, scope: Scope | None = None) -> Topic:
        if scope is not None:
            self.principal.require(scope, Kind.TOPIC, queue.topic)
        if name_fault(queue.topic) is not None:
            raise no_such_queue()
        topic = get_topic(self.namespace, queue.topic)
        if name_of(topic) != queue.name:
            raise no_such_queue()
        return topic

    def changing(self) -> None:
        """Raises Problem where nothing may be changed."""
        reject_change(self.principal, "POST", "", OWN_NAMESPACE)


def name_of(topic: Topic) -> str:
    """As SQS has it."""
    return queue_name(topic.name, is_fifo=topic.message_type == MessageType.FIFO)
