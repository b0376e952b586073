"""A topic with messages and a group on a real engine, for tests of offsets over REST."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from django.test import Client

from mqservice.store import (
    LeaseRef,
    Received,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
    StoreClient,
    StoreMessage,
    encode_record,
    new_message_id,
)

Json = dict[str, Any]  # reason: answers are looked into by tests, field by field
_numbers = itertools.count()


class Reader:
    """``topic`` and ``group`` of namespace acme, under names of their own."""

    def __init__(self, client: Client, store: StoreClient, *, queues: int = 1) -> None:
        number = next(_numbers)
        self.client, self.store = client, store
        self.topic, self.group = f"reset{number}", f"reader{number}"
        self.path = f"/v1/ns/acme/groups/{self.group}"
        created = client.put(
            f"/v1/ns/acme/topics/{self.topic}",
            data=msgspec.json.encode({"queues": queues}),
            content_type="application/json",
        )
        assert created.status_code == 201, created.content
        assert client.put(self.path).status_code == 201

    @classmethod
    def of_two_queues(cls, client: Client, store: StoreClient) -> Reader:
        """Five messages in queue 0 and two in queue 1."""
        reader = cls(client, store, queues=2)
        reader.put(5)
        reader.put(2, queue_id=1)
        return reader

    def put(self, count: int, *, queue_id: int = 0) -> None:
        """Messages ``0``, ``1``, …"""
        records = [
            encode_record(
                StoreMessage(
                    topic=f"acme%{self.topic}", queue_id=queue_id, body=b"%d" % index, tag=None,
                    keys=[], message_group=None, properties={}, born_timestamp_ms=1,
                    born_host=("127.0.0.1", 1), message_id=new_message_id(),
                )
            )
            for index in range(count)
        ]  # fmt: skip
        assert all(result.error is None for result in self.store.put(records))

    def receive(self, count: int = 100, *, wait_ms: int = 0) -> Received:
        return self.store.receive(
            ReceiveRequest(
                group=f"acme%{self.group}", topic=f"acme%{self.topic}", member_id="m",
                messages_max=count, bytes_max=1_000_000, wait_ms=wait_ms, lease_ms=60_000,
            )
        )  # fmt: skip

    def ack(self, received: Received) -> SettleReply:
        acks = [
            LeaseRef(
                topic=record.topic, queue_id=record.queue_id, queue_offsets=[record.queue_offset],
                lease_generation=received.head.lease_generation,
            )
            for record in received.records
        ]  # fmt: skip
        return self.store.settle(SettleRequest(group=f"acme%{self.group}", acks=acks))

    def post(self, what: str, **body: object) -> tuple[int, Json]:
        """Status and document of a POST to ``:seek`` or ``/offsets:commit`` of the group."""
        response = self.client.post(
            f"{self.path}{what}",
            data=msgspec.json.encode({"topic": self.topic, **body}),
            content_type="application/json",
        )
        document: Json = response.json()
        return response.status_code, document

    def seek(self, to: object, **body: object) -> Json:
        status, document = self.post(":seek", to=to, **body)
        assert status == 200, document
        return document

    def lag(self, query: str = "") -> Json:
        response = self.client.get(f"{self.path}/lag{query}")
        assert response.status_code == 200, response.content
        document: Json = response.json()
        return document

    def consumer_offsets(self) -> list[int]:
        offsets = self.client.get(f"{self.path}/offsets").json()["offsets"]
        return [row["consumer_offset"] for row in offsets]
