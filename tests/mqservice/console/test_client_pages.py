"""Clients in the console: who is shown, who may end a socket, and what is not known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from msgspec import structs

from mqservice.accounts.models import ApiKey, AuditEntry, Role
from mqservice.accounts.services import set_role
from mqservice.delivery.connections import api as connections_api
from mqservice.delivery.connections.connection_calls import Found
from mqservice.delivery.connections.connections import ConnectedSubscription, Connection
from mqservice.lib.problem import Problem
from mqservice.masking.models import MaskRule
from mqservice.store import StoreClient
from tests.mqservice.console.reading import text_of, why_not
from tests.mqservice.groups.reading import Reader
from tests.people import People

CLIENTS = "/console/acme/clients"
DISCONNECT = f"{CLIENTS}/disconnect"


class Processes:
    """Stands for the web processes and what they answer."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.ended: list[str] = []
        self.is_away = False

    def find(self, url: str, tenant_id: int, namespace: str) -> Found:
        if self.is_away:
            raise Problem.of("CONNECTIONS_UNKNOWN", "away")
        return Found(connections=self.connections, count=len(self.connections), is_complete=True)

    def end(self, url: str, tenant_id: int, namespace: str, session_id: str) -> bool:
        self.ended.append(session_id)
        return any(each.id == session_id for each in self.connections)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    processes = Processes()
    monkeypatch.setattr(connections_api, "find_connections", processes.find)
    monkeypatch.setattr(connections_api, "end_connection", processes.end)
    return processes


def socket(number: int, *, group: str = "billing", topic: str = "orders") -> Connection:
    return Connection(
        id=f"s_{number}", namespace="acme", actor="key:abc", address=f"10.0.0.{number}",
        protocol="mq.v1.json", user_agent="agent <b>7</b>", client=f"shop-{number}",
        connected_ms=number, published=3, subscriptions=[
            ConnectedSubscription(
                sid=1, topic=topic, group=group, consumer="m", filter="", delivered=1_234, held=2,
                credit_messages=0, credit_bytes=1, flow="credit",
            )
        ],
    )  # fmt: skip


def test_sockets_are_shown_with_what_they_say_and_do(
    processes: Processes, engine: str, alice: Client
) -> None:
    processes.connections = [socket(number) for number in range(60)]
    text = text_of(alice, CLIENTS)
    assert "10.0.0.7" in text
    assert "1,234" in text
    assert "no credit" in text
    assert "<b>7</b>" not in text
    assert "1 to 50 of 60" in text
    assert "51 to 60 of 60" in text_of(alice, f"{CLIENTS}?page=2")
    assert "1 to 1 of 1" in text_of(alice, f"{CLIENTS}?q=shop-33")
    assert "No matching WebSockets" in text_of(alice, f"{CLIENTS}?q=nothing")


def test_a_socket_is_named_after_its_key(
    people: People, processes: Processes, engine: str, alice: Client
) -> None:
    key = ApiKey.objects.filter(tenant=people.acme.tenant).first()
    assert key is not None
    ApiKey.objects.filter(pk=key.pk).update(name="load generator")
    processes.connections = [structs.replace(socket(1), actor=f"key:{key.public_id}")]
    text = text_of(alice, CLIENTS)
    assert "load generator · " in text
    assert key.public_id not in text


def test_socket_is_ended_with_an_entry(
    people: People, processes: Processes, engine: str, alice: Client
) -> None:
    processes.connections = [socket(1)]
    answer = alice.post(DISCONNECT, {"id": "s_1"}, follow=True)
    assert b"Disconnected." in answer.content
    assert b"already disconnected" in alice.post(DISCONNECT, {"id": "s_2"}, follow=True).content
    entries = AuditEntry.objects.filter(action="connection.disconnect").order_by("id")
    assert [(row.actor, row.target, row.details["was_there"]) for row in entries] == [
        ("user:alice", "connections/s_1", True),
        ("user:alice", "connections/s_2", False),
    ]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DEVELOPER])
def test_who_is_no_admin_is_told_why_not_and_refused(
    people: People, processes: Processes, engine: str, client: Client, role: Role
) -> None:
    set_role(people.acme.tenant, people.bob, role)
    client.force_login(people.bob)
    processes.connections = [socket(1)]
    text = text_of(client, CLIENTS)
    assert "clients/disconnect" not in text
    assert "Disconnect" in why_not(text)
    assert client.post(DISCONNECT, {"id": "s_1"}).status_code == 403
    assert processes.ended == []


def test_stranger_finds_nothing(people: People, processes: Processes, client: Client) -> None:
    client.force_login(people.charlie)
    assert client.get(CLIENTS).status_code == client.post(DISCONNECT).status_code == 404
    assert processes.ended == []


def test_unknown_is_said_to_be_unknown(processes: Processes, alice: Client) -> None:
    processes.is_away = True
    text = text_of(alice, CLIENTS)
    assert "open WebSockets are unknown" in text
    assert "consumers are unknown" in text  # nor is there an engine


def test_consumers_over_rest_and_addresses_of_those_on_sockets(
    people: People, processes: Processes, alice: Client, api: object, store: StoreClient
) -> None:
    reader = Reader(api(people.acme_key), store)  # type: ignore[operator]  # conftest's
    reader.put(2)
    reader.receive(1)
    assert f"/groups/{reader.group}" in text_of(alice, CLIENTS)
    processes.connections = [socket(9, group=reader.group, topic=reader.topic)]
    text = text_of(alice, f"/console/acme/groups/{reader.group}")
    assert "10.0.0.9 · shop-9" in text
    assert "shop-9 (no credit) cannot receive messages now" in text


def test_what_is_no_id_of_a_socket_is_refused_over_rest(
    people: People, processes: Processes, api: Callable[[str], Client]
) -> None:
    """Found by fuzzing: the document says printable ASCII, the service took anything."""
    client = api(people.acme_admin_key)
    answer = client.delete("/v1/ns/acme/connections/%C3%9F%C3%87")
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
    assert not AuditEntry.objects.filter(action="connection.disconnect").exists()
    assert client.delete("/v1/ns/acme/connections/nobody").status_code == 200


def test_a_filter_over_a_hidden_property_is_not_shown(
    people: People, processes: Processes, alice: Client
) -> None:
    told = socket(1)
    wanted = structs.replace(told.subscriptions[0], filter="Card_Number = '4111' AND a = 1")
    processes.connections = [structs.replace(told, subscriptions=[wanted])]
    assert "4111" in alice.get(CLIENTS).content.decode()
    fields = {"topics": "or*", "part": "property", "path": "card*", "clear_for": "owner"}
    MaskRule.objects.create(namespace=people.acme, name="card", **fields)
    assert "4111" in alice.get(CLIENTS).content.decode()
    set_role(people.acme.tenant, people.alice, Role.ADMIN)
    page = alice.get(CLIENTS).content.decode()
    assert "4111" not in page
    assert "a condition on a hidden property" in page
