"""Usage over REST: what was counted and measured, by span and thing, as JSON and as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.timestamps import parse_rfc3339, rfc3339
from mqservice.store import StoreClient, StoreMessage, encode_record, new_message_id
from mqservice.topics.services import TopicChange, put_topic
from mqservice.usage.counts import UsageBatch, UsageCounts
from mqservice.usage.limits import RETAINED_MS
from mqservice.usage.models import UsageHour
from mqservice.usage.writing import clean_up, measure_storage, write_counts
from tests.people import People

Api = Callable[[str], Client]
DAY = parse_rfc3339("2026-03-01T00:00:00Z")
PATH = "/v1/usage?from=2026-03-01T00:00:00Z&to=2026-03-03T00:00:00Z"


@pytest.fixture
def used(people: People) -> People:
    """Two topics of acme in three hours of two days, one of rival."""
    for hour, topic in ((0, "a"), (0, "b"), (1, "a"), (25, "a")):
        counts = UsageCounts()
        counts.stored(f"acme%{topic}", 2, 200)
        counts.sent(f"acme%{topic}", 1, 50)
        counts.called(people.acme.tenant_id, f"acme%{topic}")
        counts.called(people.acme.tenant_id)
        counts.called_elsewhere(people.acme.tenant_id)
        counts.stored("rival%a", 1_000, 1_000)
        write_counts(counts.drain(), DAY + hour * HOUR_MS + 7)
    return people


def rows_of(client: Client, more: str = "") -> list[dict[str, object]]:
    answer = client.get(PATH + more)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, object]] = answer.json()["rows"]
    return found


def test_sums_are_those_of_the_spans_and_things_asked_for(used: People, api: Api) -> None:
    owner = api(used.acme_admin_key)
    hours = rows_of(owner)
    assert [(row["at"], row["messages_in"], row["api_calls"]) for row in hours] == [
        ("2026-03-01T00:00:00.000Z", 4, 6),
        ("2026-03-01T01:00:00.000Z", 2, 3),
        ("2026-03-02T01:00:00.000Z", 2, 3),
    ]
    days = rows_of(owner, "&per=day&by=topic")
    assert [
        (row["at"], row["namespace"], row["topic"], row["bytes_in"], row["bytes_out"])
        for row in days
    ] == [
        ("2026-03-01T00:00:00.000Z", None, None, 0, 0),
        ("2026-03-01T00:00:00.000Z", "acme", "a", 400, 100),
        ("2026-03-01T00:00:00.000Z", "acme", "b", 200, 50),
        ("2026-03-02T00:00:00.000Z", None, None, 0, 0),
        ("2026-03-02T00:00:00.000Z", "acme", "a", 200, 50),
    ]
    assert [row["messages_out"] for row in rows_of(owner, "&topic=b")] == [1]


def test_pages_are_all_rows_once_in_order(used: People, api: Api) -> None:
    owner = api(used.acme_admin_key)
    whole = rows_of(owner, "&by=topic")
    paged: list[dict[str, object]] = []
    cursor = ""
    while True:
        answer = owner.get(f"{PATH}&by=topic&limit=2{cursor}").json()
        assert len(answer["rows"]) <= 2
        paged += answer["rows"]
        if answer["next_cursor"] is None:
            break
        cursor = f"&cursor={answer['next_cursor']}"
    assert paged == whole


def test_a_cursor_of_another_question_or_tenant_is_refused(used: People, api: Api) -> None:
    owner = api(used.acme_admin_key)
    cursor = owner.get(f"{PATH}&by=topic&limit=1").json()["next_cursor"]
    forged = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    asked = [
        (owner, f"&by=namespace&cursor={cursor}"),
        (owner, f"&by=topic&per=day&cursor={cursor}"),
        (api(used.rival_owner_key), f"&by=topic&cursor={cursor}"),
        (owner, f"&by=topic&cursor={forged}"),
        (owner, "&by=topic&cursor=" + "A" * 9_999),
        (owner, "&by=topic&cursor=%00"),
    ]
    for client, more in asked:
        answer = client.get(PATH + more)
        assert (answer.status_code, answer.json()["code"]) == (400, "CURSOR_INVALID"), more


def test_a_key_of_a_namespace_sees_that_one_only(used: People, api: Api) -> None:
    bound = api(used.acme_key)
    assert {row["namespace"] for row in rows_of(bound, "&by=topic")} == {"acme"}
    assert rows_of(bound, "&namespace=rival") == []
    assert rows_of(api(used.rival_key))[0]["messages_in"] == 2_000


def test_a_table_has_the_same_rows(used: People, api: Api) -> None:
    UsageHour.objects.create(
        tenant=used.acme.tenant, hour_ms=DAY, namespace="acme", topic="-1-2", api_calls=9
    )
    owner = api(used.acme_admin_key)
    answer = owner.get(f"{PATH}&by=topic", headers={"accept": "text/csv"})
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    lines = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [int(line["api_calls"]) for line in lines] == [
        row["api_calls"] for row in rows_of(owner, "&by=topic")
    ]
    assert "'-1-2" in {line["topic"] for line in lines}
    page = owner.get(f"{PATH}&by=topic&limit=1", headers={"accept": "text/csv"})
    assert page["X-Next-Cursor"]
    refused = owner.get(PATH, headers={"accept": "image/png"})
    assert (refused.status_code, refused.json()["code"]) == (406, "NOT_ACCEPTABLE")


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z",
        "from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z",
        "from=yesterday",
        "per=week",
        "by=group",
        "limit=0",
        "limit=1001",
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    people: People, api: Api, query: str
) -> None:
    answer = api(people.acme_key).get(f"/v1/usage?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
    assert answer.json()["errors"][0]["pointer"].startswith("?")


def test_storage_is_what_the_engine_counts_and_its_maximum_stays(
    people: People, api: Api, engine: str
) -> None:
    put_topic(people.acme, "held", TopicChange(queue_count=1))
    record = encode_record(
        StoreMessage(
            topic="acme%held",
            queue_id=0,
            body=b"x" * 1_000,
            message_id=new_message_id(),
            born_timestamp_ms=DAY,
            born_host=("127.0.0.1", 1),
        )
    )
    with StoreClient(engine, client_name="test") as client:
        client.put([record])
        assert measure_storage(client, DAY) == 1
    UsageHour.objects.update(storage_bytes_max=5_000)
    with StoreClient(engine, client_name="test") as client:
        measure_storage(client, DAY + 1)
        measure_storage(client, DAY + HOUR_MS)
    first, second = rows_of(api(people.acme_key), "&by=topic")
    assert (first["storage_bytes_max"], second["storage_bytes_max"]) == (5_000, len(record))
    (day,) = rows_of(api(people.acme_key), "&per=day")
    assert day["storage_bytes_max"] == 5_000


def test_what_could_not_be_written_is_written_later(people: People) -> None:
    counts = UsageCounts()
    counts.stored("acme%a", 1, 10)
    counts.called(people.acme.tenant_id)
    counts.put_back(counts.drain())
    counts.stored("acme%a", 2, 20)
    assert counts.drain() == UsageBatch({"acme%a": [3, 30, 0, 0, 0]}, {people.acme.tenant_id: 1})
    assert counts.drain() == UsageBatch()


def test_no_more_topics_are_counted_than_may_be(people: People) -> None:
    counts = UsageCounts(topics_max=2)
    for topic in "abcd":
        counts.stored(f"acme%{topic}", 1, 1)
    assert set(counts.drain().topics) == {"acme%a", "acme%b"}


def test_what_is_gone_is_left_out(people: People) -> None:
    gone = UsageBatch({"nobody%a": [1, 1, 1, 1, 1]}, {2**40: 5})
    assert write_counts(gone, DAY) == 0
    assert not UsageHour.objects.exists()


def test_old_hours_go_and_the_oldest_of_too_many(used: People) -> None:
    count = UsageHour.objects.count()
    assert clean_up(DAY + RETAINED_MS) == 0
    assert clean_up(DAY + RETAINED_MS + HOUR_MS) > 0
    left = UsageHour.objects.count()
    assert 0 < left < count
    assert clean_up(DAY + 2 * DAY_MS, rows_max=1) == left - 1
    assert rfc3339(UsageHour.objects.get().hour_ms) == "2026-03-02T01:00:00.000Z"
