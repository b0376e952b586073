"""A purge over REST on a real engine: what goes, what stays, who may, and what the audit keeps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry
from mqservice.store import OutcomeUnknown
from mqservice.topics import purging
from tests.mqservice.groups.reading import Json, Reader


def purge(reader: Reader, **body: Any) -> Json:  # Any: fields of the request
    response = reader.client.post(
        f"/v1/ns/acme/topics/{reader.topic}:purge",
        data=msgspec.json.encode(body) if body else b"",
        content_type="application/json",
    )
    assert response.status_code == 200, response.content
    answer: Json = response.json()
    return answer


def test_a_dry_run_counts_and_leaves_all_in_place(reader: Reader) -> None:
    held = reader.receive(2)
    shown = purge(reader, dry_run=True)
    assert shown == {
        "topic": reader.topic, "dry_run": True, "messages": 7, "inflight": 2, "retries": 0,
        "queues": [
            {"queue": 0, "from_offset": 0, "to_offset": 5},
            {"queue": 1, "from_offset": 0, "to_offset": 2},
        ],
    }  # fmt: skip
    assert reader.ack(held).acked_count == 2
    assert not AuditEntry.objects.filter(action="topic.purge").exists()


def test_a_purge_empties_the_topic_for_every_group_and_is_written_down(reader: Reader) -> None:
    held = reader.receive(2)
    done = purge(reader)
    assert (done["dry_run"], done["messages"], done["inflight"]) == (False, 7, 2)
    assert reader.ack(held).acked_count == 0
    assert reader.receive().records == []
    assert reader.consumer_offsets() == [5, 2]
    reader.put(1)
    assert [record.body for record in reader.receive().records] == [b"0"]
    entry = AuditEntry.objects.get(action="topic.purge")
    assert (entry.target, entry.outcome) == (f"topics/{reader.topic}", "done")
    assert entry.details["messages"] == 7
    assert entry.details["queues"][1] == {"queue": 1, "from": 0, "to": 2}
    assert purge(reader)["messages"] == 1


def test_where_nobody_knows_whether_it_was_done_the_audit_says_so(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(topic: object, *, is_dry_run: bool, has_scheduled: bool) -> None:
        raise OutcomeUnknown("the connection broke")

    monkeypatch.setattr(purging, "_purge", lost)
    path = f"/v1/ns/acme/topics/{reader.topic}:purge"
    response = reader.client.post(path, content_type="application/json")
    assert response.status_code >= 500
    assert AuditEntry.objects.get(action="topic.purge").outcome == "unknown"


@pytest.mark.parametrize("body", [b"[]", b'{"dry_run": "yes"}', b'{"dry": true}', b"{"])
def test_an_order_that_cannot_be_read_drops_nothing(reader: Reader, body: bytes) -> None:
    path = f"/v1/ns/acme/topics/{reader.topic}:purge"
    assert reader.client.post(path, data=body, content_type="application/json").status_code == 400
    assert len(reader.receive().records) == 6


def test_a_topic_that_is_not_there_cannot_be_purged(acme: Client, engine: str) -> None:
    response = acme.post("/v1/ns/acme/topics/nowhere:purge", content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (404, "TOPIC_NOT_FOUND")
