"""One span for each request and frame, named and linked as OpenTelemetry's conventions have it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from mqservice.accounts.scopes import Scope
from mqservice.delivery import spans
from mqservice.delivery.spans import LINKS_MAX
from mqservice.store import Durability, StoreClient, TopicConfig
from tests.mqservice.delivery.browsing import browse
from tests.mqservice.delivery.engine_serving import serving_engine
from tests.mqservice.delivery.peers import BOTH, Peer, subscribe
from tests.mqservice.delivery.serving import Json, Server
from tests.mqservice.delivery.tracing_double import (
    TracingDouble,
    attributes,
    ids_of,
    links_of,
    parent_of,
)

pytestmark = pytest.mark.real_engine(queue_count=1)

IDS = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
CONTEXT = {"traceparent": f"00-{IDS}-01"}
OTHER_IDS = "4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331"
OTHER = {"traceparent": f"00-{OTHER_IDS}-01"}
SECRET = "nobody-may-see-this"


@pytest.fixture(scope="module")
def tracing() -> TracingDouble:
    return TracingDouble()


@pytest.fixture(scope="module")
def server(engine_socket: str, tracing: TracingDouble) -> Iterator[Server]:
    with serving_engine(engine_socket, spans=tracing.spans) as running:
        yield running


def path_of(topic: str) -> str:
    return f"/v1/-/topics/{topic}/messages"


def receive_path(topic: str, group: str) -> str:
    return f"/v1/-/topics/{topic}/groups/{group}:receive"


def common(operation: str, type_: str | None = None) -> dict[str, object]:
    return {
        "messaging.system": "mqservice",
        "messaging.operation.name": operation,
        "messaging.operation.type": type_ or operation,
        "mqservice.namespace": "acme",
    }


def test_a_produce_belongs_to_the_trace_of_its_client(
    sender: httpx.Client, topic: str, tracing: TracingDouble
) -> None:
    offer = {"body": SECRET, "properties": {"p": SECRET}, "keys": [SECRET]}
    answer = sender.post(path_of(topic), json=offer, headers=CONTEXT)

    [span] = tracing.take(f"send {topic}")
    assert (parent_of(span), span.kind) == (IDS, SpanKind.SERVER)
    assert attributes(span) == {
        **common("send"),
        "messaging.destination.name": topic,
        "messaging.message.id": answer.json()["id"],
    }
    assert span.start_time is not None
    assert span.end_time is not None
    assert 0 < span.start_time <= span.end_time
    assert span.status.status_code is StatusCode.UNSET
    assert SECRET not in span.to_json()
    assert "mqk_" not in span.to_json()
    [message] = browse(sender, topic)["messages"]
    assert message["properties"] == {"p": SECRET, **CONTEXT}


def test_a_produce_without_a_trace_begins_one_that_its_message_carries(
    sender: httpx.Client, topic: str, group: str, tracing: TracingDouble
) -> None:
    id_ = sender.post(path_of(topic), json={"body": "a"}).json()["id"]
    [sent] = tracing.take(f"send {topic}")
    [message] = sender.post(receive_path(topic, group), json={}).json()["messages"]
    [received] = tracing.take(f"receive {topic}")

    assert (sent.parent, sent.kind, sent.links) == (None, SpanKind.PRODUCER, ())
    assert message["properties"]["traceparent"].startswith(f"00-{ids_of(sent)}-")
    assert links_of(received) == [(ids_of(sent), id_)]


def test_a_batch_is_one_span(sender: httpx.Client, topic: str, tracing: TracingDouble) -> None:
    batch = [{"body": "a"}, {"body": "b", "properties": OTHER}]
    answer = sender.post(f"{path_of(topic)}:batch", json=batch, headers=CONTEXT)
    assert answer.status_code == 201

    [span] = tracing.take(f"send {topic}")
    assert (parent_of(span), links_of(span)) == (IDS, [(OTHER_IDS, "")])
    assert attributes(span) == {
        **common("send"),
        "messaging.destination.name": topic,
        "messaging.batch.message_count": 2,
    }


def test_a_produce_that_comes_again_is_a_span_of_the_first_message(
    sender: httpx.Client, topic: str, tracing: TracingDouble
) -> None:
    for _ in range(2):
        answer = sender.post(path_of(topic), json={"body": "a", "dedup_id": "one"})
        [span] = tracing.take(f"send {topic}")
        assert attributes(span) == {
            **common("send"),
            "messaging.destination.name": topic,
            "messaging.message.id": answer.json()["id"],
        }


def test_a_receive_links_to_its_messages_and_so_does_their_settle(
    sender: httpx.Client, topic: str, group: str, tracing: TracingDouble
) -> None:
    ids = []
    for headers in (CONTEXT, OTHER):
        ids.append(sender.post(path_of(topic), json={"body": "a"}, headers=headers).json()["id"])
        tracing.take(f"send {topic}")
    messages = sender.post(receive_path(topic, group), json={}, headers=CONTEXT).json()["messages"]
    [received] = tracing.take(f"receive {topic}")
    body = {
        "ack": [messages[0]["receipt"]],
        "nack": [{"receipt": messages[1]["receipt"], "delay": "0s", "reason": SECRET}],
    }
    sender.post(f"/v1/-/groups/{group}:settle", json=body, headers=OTHER)
    [settled] = tracing.take(f"settle {topic}")

    links = [(IDS, ids[0]), (OTHER_IDS, ids[1])]
    about = {
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": group,
        "messaging.batch.message_count": 2,
    }
    assert (parent_of(received), links_of(received)) == (IDS, links)
    assert (parent_of(settled), links_of(settled)) == (OTHER_IDS, links)
    assert (received.kind, settled.kind) == (SpanKind.SERVER, SpanKind.SERVER)
    assert attributes(received) == {**common("receive"), **about}
    assert attributes(settled) == {**common("settle"), **about}
    assert SECRET not in settled.to_json()


def test_a_receive_that_settles_has_a_span_for_each(
    sender: httpx.Client, topic: str, group: str, tracing: TracingDouble
) -> None:
    sender.post(path_of(topic), json={"body": "a"}, headers=CONTEXT)
    tracing.take(f"send {topic}")
    [message] = sender.post(receive_path(topic, group), json={}).json()["messages"]
    tracing.take(f"receive {topic}")

    options = {"wait": "0s", "settle": {"ack": [message["receipt"]]}}
    sender.post(receive_path(topic, group), json=options, headers=OTHER)

    received, settled = tracing.take(f"receive {topic}", f"settle {topic}")
    assert (parent_of(received), parent_of(settled)) == (OTHER_IDS, OTHER_IDS)
    assert (links_of(received), links_of(settled)) == ([], [(IDS, message["id"])])
    assert attributes(received)["messaging.batch.message_count"] == 0
    assert attributes(settled)["messaging.batch.message_count"] == 1


def test_many_alike_messages_of_one_trace_are_one_link(
    sender: httpx.Client, topic: str, group: str, tracing: TracingDouble
) -> None:
    batch = [{"body": str(index)} for index in range(100)]
    sender.post(f"{path_of(topic)}:batch", json=batch, headers=CONTEXT)
    tracing.take(f"send {topic}")
    messages = sender.post(receive_path(topic, group), json={"max": 100}).json()["messages"]
    [received] = tracing.take(f"receive {topic}")
    sender.post(f"/v1/-/groups/{group}:settle", json={"ack": [messages[99]["receipt"]]})
    [settled] = tracing.take(f"settle {topic}")

    assert len(messages) == 100
    assert links_of(received) == [(IDS, messages[0]["id"])]
    assert links_of(settled) == [(IDS, messages[99]["id"])]


def test_a_span_has_no_more_links_than_are_read(
    sender: httpx.Client, topic: str, group: str, tracing: TracingDouble
) -> None:
    parents = [f"00-{'a' * 32}-{index:016x}-01" for index in range(1, LINKS_MAX + 10)]
    batch = [{"body": "a", "properties": {"traceparent": parent}} for parent in parents]
    assert sender.post(f"{path_of(topic)}:batch", json=batch).status_code == 201
    [sent] = tracing.take(f"send {topic}")
    messages = sender.post(receive_path(topic, group), json={"max": 256}).json()["messages"]
    [received] = tracing.take(f"receive {topic}")

    assert len(messages) == len(parents)
    assert (len(sent.links), len(received.links)) == (LINKS_MAX, LINKS_MAX)


@pytest.mark.parametrize(
    ("offer", "code"),
    [
        ({"body": ""}, "BAD_REQUEST"),
        ({"body": "a", "tag": "a|b"}, "ILLEGAL_TAG"),
        ({"body": "a" * 5_000_000}, "BODY_TOO_LARGE"),
        ({"nobody": "knows"}, "BAD_REQUEST"),
    ],
)
def test_a_refusal_is_an_error_of_its_span(
    sender: httpx.Client, topic: str, tracing: TracingDouble, offer: Json, code: str
) -> None:
    assert sender.post(path_of(topic), json=offer, headers=CONTEXT).json()["code"] == code

    [span] = tracing.take(f"send {topic}")
    assert (parent_of(span), attributes(span)["error.type"]) == (IDS, code)
    assert span.status.status_code is StatusCode.ERROR


def test_a_topic_that_is_none_names_no_span(sender: httpx.Client, tracing: TracingDouble) -> None:
    sender.post(path_of("x" * 500), json={"body": "a"})

    [span] = tracing.take("send")
    assert attributes(span) == {**common("send"), "error.type": "ILLEGAL_TOPIC"}


def test_who_shows_no_good_key_makes_no_span(
    server: Server, sender: httpx.Client, topic: str, tracing: TracingDouble
) -> None:
    for key in ("Bearer mqk_wrong", server.key(scopes=frozenset({Scope.PRODUCE}))):
        sender.post(path_of(topic), json={"body": "a"}, headers={"authorization": key})

    tracing.take(f"send {topic}")  # of the second


def test_receipts_that_are_none_are_an_error_of_their_settle(
    sender: httpx.Client, group: str, tracing: TracingDouble
) -> None:
    answer = sender.post(f"/v1/-/groups/{group}:settle", json={"ack": ["nonsense"]}).json()
    assert [failed["code"] for failed in answer["failed"]] == ["RECEIPT_INVALID"]

    [span] = tracing.take("settle")
    assert attributes(span)["messaging.batch.message_count"] == 0
    assert attributes(span)["error.type"] == "RECEIPT_INVALID"


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_socket_has_a_span_for_each_frame(
    server: Server, topic: str, tracing: TracingDouble, subprotocol: str
) -> None:
    with Peer(server, subprotocol) as peer:
        offer = {"body": SECRET, "properties": CONTEXT}
        [stored] = peer.ask("pub", topic=topic, m=[offer])["r"]["results"]
        [sent] = tracing.take(f"send {topic}")
        subscribe(peer, topic)
        [message] = peer.take(1)
        [pushed] = tracing.take(f"push {topic}")
        assert peer.ask("ack", sid=1, t=[message["t"]])["r"]["acked"] == 1
        [settled] = tracing.take(f"settle {topic}")

    about = {"messaging.destination.name": topic, "messaging.batch.message_count": 1}
    of_group = {**about, "messaging.consumer.group.name": "billing"}
    assert parent_of(sent) == IDS
    assert attributes(sent) == {
        **common("send"), **about, "messaging.message.id": stored["id"]
    }  # fmt: skip
    assert (pushed.parent, links_of(pushed)) == (None, [(IDS, message["id"])])
    assert attributes(pushed) == {**common("push", "receive"), **of_group}
    assert (settled.parent, links_of(settled)) == (None, [(IDS, message["id"])])
    assert attributes(settled) == {**common("settle"), **of_group}
    assert SECRET not in sent.to_json() + pushed.to_json() + settled.to_json()


def test_messages_of_a_frame_without_a_trace_carry_that_of_the_frame(
    server: Server, api: httpx.Client, topic: str, tracing: TracingDouble
) -> None:
    with Peer(server) as peer:
        peer.ask("pub", topic=topic, m=[{"body": "a"}, {"body": "b", "properties": OTHER}])
    [span] = tracing.take(f"send {topic}")

    messages = browse(api, topic)["messages"]
    carried = {each["body"]: each["properties"]["traceparent"] for each in messages}
    assert (span.parent, span.kind) == (None, SpanKind.PRODUCER)
    assert carried["a"].startswith(f"00-{ids_of(span)}-")
    assert carried["b"] == OTHER["traceparent"]


def test_a_frame_that_is_refused_is_an_error_of_its_span(
    server: Server, topic: str, tracing: TracingDouble
) -> None:
    with Peer(server) as peer:
        assert peer.ask("pub", topic=topic, m=[{"body": ""}])["op"] == "err"

    [span] = tracing.take(f"send {topic}")
    assert attributes(span)["error.type"] == "BAD_REQUEST"


def test_what_the_engine_refuses_is_an_error_of_its_span(
    server: Server, sender: httpx.Client, tracing: TracingDouble
) -> None:
    server.topic("only-here")
    sender.post(path_of("only-here"), json={"body": "a"})
    [sent] = tracing.take("send only-here")
    sender.post(f"{path_of('only-here')}:batch", json=[{"body": "a"}])
    [batch] = tracing.take("send only-here")
    with Peer(server) as peer:
        assert peer.ask("pub", topic="only-here", m=[{"body": "a"}])["op"] == "err"
    [frame] = tracing.take("send only-here")

    errors = [attributes(span)["error.type"] for span in (sent, batch, frame)]
    assert errors == ["TOPIC_NOT_FOUND"] * 3


def test_a_settle_of_a_retry_names_the_topic_that_the_retry_is_in(
    sender: httpx.Client, topic: str, group: str, tracing: TracingDouble
) -> None:
    sender.post(path_of(topic), json={"body": "a"}, headers=CONTEXT)
    tracing.take(f"send {topic}")
    for settled_as in (topic, f"%RETRY%{group}"):
        [message] = sender.post(receive_path(topic, group), json={}).json()["messages"]
        tracing.take(f"receive {topic}")
        nack = {"receipt": message["receipt"], "delay": "0s"}
        sender.post(f"/v1/-/groups/{group}:settle", json={"nack": [nack]})
        [settled] = tracing.take(f"settle {settled_as}")
        assert links_of(settled) == [(IDS, message["id"])]


def test_only_the_newest_leases_are_remembered(
    sender: httpx.Client,
    topic: str,
    group: str,
    tracing: TracingDouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "LEASED_MAX", len(tracing.spans.leased) + 1)
    sender.post(f"{path_of(topic)}:batch", json=[{"body": "a"}] * 3, headers=CONTEXT)
    tracing.take(f"send {topic}")
    messages = sender.post(receive_path(topic, group), json={}).json()["messages"]
    tracing.take(f"receive {topic}")

    assert len(tracing.spans.leased) == spans.LEASED_MAX
    for message in messages:
        sender.post(f"/v1/-/groups/{group}:settle", json={"ack": [message["receipt"]]})
        [settled] = tracing.take(f"settle {topic}")
    assert links_of(settled) == [(IDS, messages[2]["id"])]


def test_what_is_not_sampled_is_not_exported_and_marks_no_message(engine_socket: str) -> None:
    tracing = TracingDouble(ALWAYS_OFF)
    with serving_engine(engine_socket, spans=tracing.spans) as server:
        with StoreClient(engine_socket, client_name="setup") as client:
            client.topic_put(
                TopicConfig(topic="acme%unseen", queue_count=1, durability=Durability.SYNC)
            )
        server.topic("unseen", queue_count=1)
        with server.client() as api:
            api.post(path_of("unseen"), json={"body": "a"})
            [message] = browse(api, "unseen")["messages"]

    assert message["properties"] == {}
    assert tracing.take() == []
