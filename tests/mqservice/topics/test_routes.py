"""Which topics the data plane is told of: by name, of one namespace, of what a key may consume."""

from __future__ import annotations

import pytest

from mqservice.accounts.models import Namespace
from mqservice.topics.models import Topic
from mqservice.topics.queue_options import QueueOptions
from mqservice.topics.routes import TopicsAfter, find_topic_route, find_topic_routes
from tests.people import People

NAMES = ("Orders", "a_b", "axb", "orders", "orders-eu", "stock")


@pytest.fixture
def topics(people: People) -> People:
    for namespace in (people.acme, people.rival):
        for name in NAMES:
            Topic.objects.create(namespace=namespace, name=name, queue_count=3)
    return people


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (("*",), set(NAMES)),
        (("orders",), {"orders"}),
        (("orders*",), {"orders", "orders-eu"}),
        (("a_b*", "stock"), {"a_b", "stock"}),
        ((), set()),
    ],
)
def test_patterns_of_a_key_select_by_the_letter(
    topics: People, patterns: tuple[str, ...], names: set[str]
) -> None:
    found = find_topic_routes(TopicsAfter(topics.acme.tenant_id, "acme", patterns, "", 10))
    assert {route.name for route in found.routes} == names
    assert found.left_count == 0
    assert {route.engine_name for route in found.routes} == {f"acme%{name}" for name in names}


def test_each_is_found_once_in_parts_and_those_behind_are_counted(topics: People) -> None:
    after, seen, left = "", [], []
    for _ in range(3):
        found = find_topic_routes(TopicsAfter(topics.acme.tenant_id, "acme", ("*",), after, 2))
        seen += [route.name for route in found.routes]
        left.append(found.left_count)
        after = seen[-1]
    assert (sorted(seen), left) == (sorted(NAMES), [4, 2, 0])


def test_namespaces_of_others_have_no_topics(topics: People) -> None:
    asked = TopicsAfter(topics.acme.tenant_id, "rival", ("*",), "", 10)
    assert find_topic_routes(asked).routes == []


def test_topics_of_another_namespace_of_the_tenant_are_not_searched(topics: People) -> None:
    other = Namespace.objects.create(tenant=topics.acme.tenant, name="acme-test")
    Topic.objects.create(namespace=other, name="orders-test")
    found = find_topic_routes(TopicsAfter(topics.acme.tenant_id, "acme", ("*",), "", 10))
    assert {route.namespace for route in found.routes} == {"acme"}
    assert {route.name for route in found.routes} == set(NAMES)
    found = find_topic_routes(TopicsAfter(topics.acme.tenant_id, "acme-test", ("*",), "", 10))
    assert [route.engine_name for route in found.routes] == ["acme-test%orders-test"]


def test_a_topic_is_told_of_alike_alone_and_among_others(topics: People) -> None:
    orders = Topic.objects.filter(namespace=topics.acme, name="orders")
    orders.update(letter_sources=["a"], body_bytes_max=77, sqs={"delay_s": 7})
    alone = find_topic_route(topics.acme.tenant_id, "acme", "orders")
    assert alone is not None
    assert (alone.namespace, alone.shard, alone.queue_count) == ("acme", "main", 3)
    assert (alone.body_bytes_max, alone.letter_sources) == (77, ("a",))
    assert alone.queue == QueueOptions(delay_s=7)
    found = find_topic_routes(TopicsAfter(topics.acme.tenant_id, "acme", ("*",), "", 10))
    assert alone in found.routes
    assert find_topic_route(topics.acme.tenant_id, "acme", "nothing") is None
