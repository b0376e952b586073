"""An import: what it says beforehand it does, all of it or nothing, for whom it may."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry, Role
from mqservice.accounts.services import create_api_key
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import MAIN_SHARD
from mqservice.quotas.models import Source
from mqservice.quotas.services import put_limits
from mqservice.store import (
    GroupConfig,
    OutcomeUnknown,
    StoreClient,
    StoreError,
    TopicConfig,
    blocking_client,
)
from mqservice.topics.models import Topic
from tests.engine import running_engine
from tests.people import People

Api = Callable[[str], Client]
Json = dict[str, Any]  # Any: answers are looked into field by field
JSON = "application/json"
PATH = "/v1/ns/acme/definitions:import"


def document(topics: list[Json] | None = None, groups: list[Json] | None = None) -> Json:
    return {"version": 1, "topics": topics or [], "groups": groups or []}


FIRST = document(
    [{"name": "orders", "queues": 2}, {"name": "audit", "retention": "1d"}],
    [{"name": "billing", "lease": "30s"}],
)
SECOND = document(
    [{"name": "orders", "queues": 5}, {"name": "audit"}, {"name": "fresh", "queues": 3}],
    [{"name": "billing", "lease": "45s", "max_attempts": 3}],
)


def sent(client: Client, content: Json, query: str = "") -> Any:  # Any: the client's answer
    return client.post(PATH + query, json.dumps(content), content_type=JSON)


def queue_counts(store: StoreClient) -> dict[str, int]:
    return {each.topic: each.queue_count for each in store.topic_list().topics}


def leases_ms(store: StoreClient) -> dict[str, int]:
    return {each.group: each.lease_ms for each in store.group_list().groups}


def test_it_creates_changes_and_leaves_alone_and_says_which(
    acme: Client, store: StoreClient
) -> None:
    acme.put("/v1/ns/acme/topics/other")
    assert sent(acme, FIRST).json()["created"] == 3

    answer = sent(acme, SECOND).json()

    assert answer == {
        "dry_run": False, "created": 1, "changed": 2, "unchanged": 1,
        "topics": [
            {
                "name": "orders", "action": "changed",
                "before": {"queues": 2}, "after": {"queues": 5},
            },
            {"name": "audit", "action": "unchanged", "before": {}, "after": {}},
            {
                "name": "fresh", "action": "created", "before": None,
                "after": {
                    "type": "mixed", "queues": 3, "durability": "sync", "retention": "3d",
                    "body_bytes_max": 4_194_304,
                },
            },
        ],
        "groups": [
            {
                "name": "billing", "action": "changed",
                "before": {"lease": "30s", "max_attempts": 17},
                "after": {"lease": "45s", "max_attempts": 3},
            },
        ],
    }  # fmt: skip
    counts = {name: count for name, count in queue_counts(store).items() if "acme%" in name}
    assert counts == {"acme%orders": 5, "acme%audit": 4, "acme%fresh": 3, "acme%other": 4}
    assert leases_ms(store)["acme%billing"] == 45_000
    revisions = dict(Topic.objects.values_list("name", "revision"))
    assert revisions == {"orders": 2, "audit": 1, "fresh": 1, "other": 1}


def test_a_dry_run_says_the_same_and_does_nothing(acme: Client, store: StoreClient) -> None:
    sent(acme, FIRST)
    entries, counts = AuditEntry.objects.count(), queue_counts(store)
    rows = list(Topic.objects.order_by("id").values())

    preview = sent(acme, SECOND, "?dry_run=true").json()

    assert preview["dry_run"] is True
    assert (AuditEntry.objects.count(), queue_counts(store)) == (entries, counts)
    assert list(Topic.objects.order_by("id").values()) == rows
    done = sent(acme, SECOND).json()
    assert done == preview | {"dry_run": False}


def test_the_same_again_changes_nothing_and_is_not_audited(
    acme: Client, store: StoreClient
) -> None:
    sent(acme, SECOND)
    before = AuditEntry.objects.count()
    answer = sent(acme, SECOND).json()
    assert (answer["created"], answer["changed"], answer["unchanged"]) == (0, 0, 4)
    assert AuditEntry.objects.count() == before


def test_each_thing_that_becomes_different_is_audited_as_a_put_would_be(
    acme: Client, engine: str
) -> None:
    sent(acme, FIRST)
    first = AuditEntry.objects.latest("id").pk
    sent(acme, SECOND)
    entries = AuditEntry.objects.filter(pk__gt=first).order_by("id")
    found = [(each.action, each.target, each.before, each.after) for each in entries]
    assert found[0] == ("topic.put", "topics/orders", {"queue_count": 2}, {"queue_count": 5})
    assert [(action, target) for action, target, *_ in found[1:]] == [
        ("topic.put", "topics/fresh"),
        ("group.put", "groups/billing"),
    ]
    assert found[1][2] is None
    assert {each.actor for each in entries} == {entries[0].actor}
    assert entries[0].actor.startswith("key:")


@pytest.mark.parametrize("query", ["?dry_run=yes", "?dry-run=true", "?dry_run=true&x=1"])
def test_a_slip_in_the_query_is_no_order(acme: Client, engine: str, query: str) -> None:
    assert sent(acme, FIRST, query).status_code == 400
    assert not Topic.objects.exists()


def test_what_the_rows_do_not_allow_is_told_of_all_and_nothing_is_done(
    acme: Client, store: StoreClient
) -> None:
    sent(acme, FIRST)
    wanted = document(
        [{"name": "new"}, {"name": "orders", "queues": 1}],
        [
            {"name": "billing", "start_from": "timestamp"},
            {"name": "each", "dispatch": "broadcast", "ordered": True},
        ],
    )
    for query in ("?dry_run=true", ""):
        answer = sent(acme, wanted, query)
        assert (answer.status_code, answer.json()["code"]) == (400, "ILLEGAL_SETTING")
        assert [item["pointer"] for item in answer.json()["errors"]] == [
            "/topics/1/queues", "/groups/0/start_time", "/groups/1/ordered",
        ]  # fmt: skip
    assert not Topic.objects.filter(name="new").exists()
    assert "acme%new" not in queue_counts(store)


def test_quotas_are_asked_of_all_that_is_new_together(
    people: People, acme: Client, store: StoreClient
) -> None:
    sent(acme, FIRST)
    limits = {"topic_count_max": 3, "group_count_max": 2}
    put_limits(None, people.acme.tenant, Source.OPERATOR, limits)
    wanted = document(
        [{"name": "orders"}, {"name": "a"}, {"name": "b"}], [{"name": "x"}, {"name": "y"}]
    )
    for query in ("?dry_run=true", ""):
        answer = sent(acme, wanted, query)
        assert (answer.status_code, answer.json()["code"]) == (403, "QUOTA_EXCEEDED")
        assert [(item["pointer"], item["detail"]) for item in answer.json()["errors"]] == [
            ("/topics", "2 new topics would be created; the tenant has 2 and may have 3"),
            ("/groups", "2 new groups would be created; the tenant has 1 and may have 2"),
        ]
    assert Topic.objects.count() == 2
    fits = document([{"name": "orders"}, {"name": "a"}], [{"name": "x"}])
    assert sent(acme, fits).status_code == 200


def test_a_key_of_some_names_imports_those_and_no_others(
    people: People, api: Api, engine: str
) -> None:
    scopes = ["manage:topic/orders*", "manage:group/billing"]
    key = create_api_key(people.acme.tenant, name="n", scopes=scopes, role=Role.DEVELOPER)[1]
    client = api(key)
    refused = sent(client, FIRST)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert [item["pointer"] for item in refused.json()["errors"]] == ["/topics/1"]
    assert not Topic.objects.exists()
    own = document([{"name": "orders"}, {"name": "orders-eu"}], [{"name": "billing"}])
    assert sent(client, own).json()["created"] == 3
    swapped = document([{"name": "billing"}], [{"name": "orders"}])
    answer = sent(client, swapped).json()
    assert [item["pointer"] for item in answer["errors"]] == ["/topics/0", "/groups/0"]


def test_who_may_manage_nothing_is_not_told_what_is_wrong_with_a_document(
    people: People, api: Api, engine: str
) -> None:
    for key in (people.acme_viewer_key, people.acme_reader_key):
        for query in ("", "?dry_run=true"):
            answer = sent(api(key), {"version": 9}, query)
            assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


def test_without_an_engine_nothing_is_done(
    acme: Client, store: StoreClient, settings: Settings
) -> None:
    sent(acme, FIRST)
    socket, settings.MQ_ENGINE_SOCKET = settings.MQ_ENGINE_SOCKET, "/nonexistent/engine.sock"
    entries = AuditEntry.objects.count()

    answer = sent(acme, SECOND)

    assert (answer.status_code, answer.json()["code"]) == (503, "ENGINE_UNAVAILABLE")
    assert answer.json()["retryable"] is True
    assert "until the same document is imported again" in answer.json()["detail"]
    assert AuditEntry.objects.count() == entries
    assert not Topic.objects.filter(name="fresh").exists()
    settings.MQ_ENGINE_SOCKET = socket
    assert queue_counts(store)["acme%orders"] == 2
    assert sent(acme, SECOND).json()["changed"] == 2


def test_what_the_engine_refuses_in_the_middle_takes_all_of_it_back(
    people: People, acme: Client, settings: Settings
) -> None:
    with running_engine({"MQ_ENGINE_QUEUE_COUNT_MAX": "4"}) as socket:
        settings.MQ_ENGINE_SOCKET = socket
        sent(acme, FIRST)
        wanted = document(
            [{"name": "orders", "queues": 3}, {"name": "huge", "queues": 200}],
            [{"name": "billing", "lease": "9s"}],
        )

        answer = sent(acme, wanted)

        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
        assert [item["pointer"] for item in answer.json()["errors"]] == ["/topics/1"]
        assert answer.json()["detail"].startswith("/topics/1: queue_count is 200")
        assert answer.json()["detail"].endswith("nothing was imported")
        assert dict(Topic.objects.values_list("name", "queue_count")) == {"orders": 2, "audit": 4}
        assert ConsumerGroup.objects.get().lease_ms == 30_000
        with blocking_client(MAIN_SHARD) as client:
            assert queue_counts(client)["acme%orders"] == 2
            assert leases_ms(client)["acme%billing"] == 30_000
        wanted["topics"][1]["queues"] = 4
        assert sent(acme, wanted).json()["changed"] == 2


def test_an_engine_that_goes_in_the_middle_is_brought_along_by_the_same_import(
    acme: Client, store: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an engine that took all of it and was gone before it answered, and for the way back too
    sent(acme, FIRST)
    real = StoreClient.put_all

    def put_and_go(
        self: StoreClient, configs: list[TopicConfig | GroupConfig]
    ) -> list[StoreError | None]:
        if "acme%fresh" in [getattr(each, "topic", "") for each in configs]:
            real(self, configs)
        raise OutcomeUnknown("the engine's connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(StoreClient, "put_all", put_and_go)
        answer = sent(acme, SECOND)
    # Then the rows are as before, the engine is ahead of them, and the answer says so
    assert (answer.status_code, answer.json()["code"]) == (503, "OUTCOME_UNKNOWN")
    assert "may have new ones" in answer.json()["detail"]
    assert Topic.objects.get(name="orders").queue_count == 2
    assert queue_counts(store)["acme%orders"] == 5
    # And either document makes both agree
    assert sent(acme, FIRST).json()["unchanged"] == 3
    assert queue_counts(store)["acme%orders"] == 2
    assert leases_ms(store)["acme%billing"] == 30_000
    assert sent(acme, SECOND).json()["created"] == 1
    assert queue_counts(store)["acme%orders"] == 5


def test_the_answer_of_an_import_is_kept_under_its_key(acme: Client, engine: str) -> None:
    headers = {"Idempotency-Key": "import-1"}
    first = acme.post(PATH, json.dumps(FIRST), content_type=JSON, headers=headers)
    again = acme.post(PATH, json.dumps(FIRST), content_type=JSON, headers=headers)
    assert first.json()["created"] == 3
    assert again.json() == first.json()
    assert again["Idempotency-Replayed"] == "true"


def test_another_tenants_things_of_the_same_names_stay(
    people: People, api: Api, acme: Client, store: StoreClient
) -> None:
    api(people.rival_key).put("/v1/ns/rival/topics/orders", '{"queues": 9}', content_type=JSON)
    assert sent(acme, FIRST).json()["created"] == 3
    assert queue_counts(store)["rival%orders"] == 9
    assert api(people.rival_key).post(PATH, json.dumps(FIRST), content_type=JSON).status_code == 404
