"""What a client has made is there for it at once, in the whole service."""

from __future__ import annotations

import os

import pytest
from mqservice_client import TopicNotFound

from tests.services import Service, client_of

pytestmark = pytest.mark.acceptance
TOPIC_COUNT = 30  # without the wait in ``asgi`` a busy machine soon fails to find one


def test_a_topic_that_was_asked_for_too_early_is_there_once_it_is_made(service: Service) -> None:
    with client_of(service.facts) as mq:
        for _ in range(TOPIC_COUNT):
            topic = f"early-{os.urandom(4).hex()}"
            with pytest.raises(TopicNotFound):
                mq.send(topic, "too early")
            mq.topics.create(topic)
            assert mq.send(topic, "in time").topic == topic
