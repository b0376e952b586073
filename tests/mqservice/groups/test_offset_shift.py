"""Seeks by so many messages over REST: where they lead, how far, and how they are refused."""

from __future__ import annotations

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.groups.services import GroupChange, put_group
from mqservice.protocol.choices import Dispatch
from mqservice.store import StoreClient
from tests.mqservice.groups.reading import Json, Reader
from tests.people import People


@pytest.fixture
def reader(acme: Client, store: StoreClient) -> Reader:
    return Reader.of_two_queues(acme, store)


def test_a_shift_leads_so_many_messages_of_each_queue_back_or_ahead(reader: Reader) -> None:
    reader.seek({"offset": 3, "queue": 0})
    reader.seek({"offset": 1, "queue": 1})
    before = reader.consumer_offsets()
    preview = reader.seek({"shift": 1}, dry_run=True)
    assert [queue["to_offset"] for queue in preview["queues"]] == [before[0] + 1, before[1] + 1]
    reader.seek({"shift": -1}, queues=[0])
    assert reader.consumer_offsets() == [before[0] - 1, before[1]]
    reader.seek({"shift": -1_000})
    assert reader.consumer_offsets() == [0, 0]
    reader.seek({"shift": 1_000})
    assert reader.consumer_offsets() == [5, 2]
    entry = AuditEntry.objects.filter(action="group.seek").latest("id")
    assert (entry.details["to"], entry.details["value"]) == ("shift", 1_000)
    assert entry.details["queues"][0] == {"queue": 0, "from": 0, "to": 5}


@pytest.mark.parametrize(
    ("to", "told"),
    [({"shift": "1"}, "a whole number"), ({"shift": 1.5}, "a whole number"), ({"shift": 1 << 63},
     "a whole number"), ({"shift": 1}, "has not read from there yet")],
)  # fmt: skip
def test_a_shift_without_a_place_or_a_number_is_refused(
    acme: Client, store: StoreClient, to: Json, told: str
) -> None:
    status, document = Reader(acme, store).post(":seek", to=to)
    assert status == 400
    assert document["errors"][0]["pointer"] == "/to/shift"
    assert told in document["errors"][0]["detail"]


def test_a_shift_of_a_group_that_broadcasts_says_of_which_client(
    people: People, acme: Client, store: StoreClient
) -> None:
    reader = Reader(acme, store)
    put_group(people.acme, reader.group, GroupChange(dispatch=Dispatch.BROADCAST))
    status, document = reader.post(":seek", to={"shift": 1})
    assert status == 400
    assert "client_id" in document["errors"][0]["detail"]
