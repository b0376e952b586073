"""Limits over REST and by the operator, and what they keep tenants from making."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import msgspec
import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mqservice.accounts.models import Namespace
from mqservice.groups.models import ConsumerGroup
from mqservice.quotas.limits import DEFAULTS, LIMIT_NAMES, QuotaLimits
from mqservice.quotas.models import QuotaRow
from mqservice.quotas.queries import limits_of
from mqservice.quotas.usage import usage_of
from mqservice.topics.models import Topic
from tests.people import People, create_people

Api = Callable[[str], Client]


@pytest.fixture
def owner(people: People, api: Api) -> Client:
    """With a key for all of tenant acme."""
    return api(people.acme_admin_key)


def quota(*arguments: str) -> QuotaLimits:
    out = StringIO()
    call_command("quota", *arguments, stdout=out)
    return msgspec.json.decode(out.getvalue(), type=QuotaLimits)


def test_a_tenant_sees_what_holds_and_what_it_uses(owner: Client, people: People) -> None:
    answer = owner.get("/v1/quotas")
    assert answer.status_code == 200
    content = answer.json()
    assert content["tenant"] == "acme"
    assert content["limits"] == msgspec.to_builtins(DEFAULTS)
    assert set(content["own"].values()) == {None}
    assert (content["usage"]["topic_count"], content["usage"]["group_count"]) == (0, 0)


def test_topics_and_groups_of_all_namespaces_are_counted_each_by_itself(people: People) -> None:
    second = Namespace.objects.create(tenant=people.acme.tenant, name="acme-2")
    for namespace, topic_count, group_count in ((people.acme, 3, 2), (second, 1, 4)):
        Topic.objects.bulk_create(
            Topic(namespace=namespace, name=f"topic-{at}") for at in range(topic_count)
        )
        ConsumerGroup.objects.bulk_create(
            ConsumerGroup(namespace=namespace, name=f"group-{at}") for at in range(group_count)
        )
    with CaptureQueriesContext(connection) as queries:
        usage = usage_of(people.acme.tenant_id)
    assert (usage.topic_count, usage.group_count) == (4, 6)
    both = [
        each["sql"] for each in queries if "topics_topic" in each["sql"] and "group" in each["sql"]
    ]
    assert both == []  # a query over both would join each topic with each group


def test_a_tenant_lowers_its_limits_and_cannot_raise_them(owner: Client) -> None:
    quota("--tenant", "acme", "topic_count_max=10")
    put = owner.put("/v1/quotas", {"topic_count_max": 7}, content_type="application/json")
    assert put.json()["limits"]["topic_count_max"] == 7
    put = owner.put("/v1/quotas", {"topic_count_max": 99}, content_type="application/json")
    assert (put.json()["limits"]["topic_count_max"], put.json()["own"]["topic_count_max"]) == (
        10,
        99,
    )
    put = owner.put("/v1/quotas", {"topic_count_max": None}, content_type="application/json")
    assert put.json()["own"]["topic_count_max"] is None


def test_a_lost_update_is_refused(owner: Client) -> None:
    etag = owner.get("/v1/quotas").headers["ETag"]
    for status in (200, 412):
        put = owner.put(
            "/v1/quotas",
            {"group_count_max": 7},
            content_type="application/json",
            headers={"if-match": etag},
        )
        assert put.status_code == status


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"topic_count_max": 0}, 400),
        ({"topic_count_max": 1 << 51}, 400),
        ({"topic_count_max": "7"}, 400),
        ({"tenant": "rival"}, 400),
        ([], 400),
    ],
)
def test_bad_limits_are_refused(owner: Client, content: object, status: int) -> None:
    put = owner.put("/v1/quotas", content, content_type="application/json")
    assert put.status_code == status
    assert QuotaRow.objects.count() == 0


def test_keys_of_one_namespace_or_without_manage_change_nothing(people: People, api: Api) -> None:
    for key in (people.acme_key, people.acme_reader_key):
        put = api(key).put("/v1/quotas", {"topic_count_max": 7}, content_type="application/json")
        assert (put.status_code, put.json()["code"]) == (403, "FORBIDDEN")
    assert api(people.acme_reader_key).get("/v1/quotas").status_code == 200


def test_another_tenants_limits_are_its_own(owner: Client, people: People, api: Api) -> None:
    owner.put("/v1/quotas", {"topic_count_max": 7}, content_type="application/json")
    theirs = api(people.rival_key).get("/v1/quotas").json()
    assert (theirs["tenant"], theirs["limits"]["topic_count_max"]) == (
        "rival",
        DEFAULTS.topic_count_max,
    )


def test_the_operator_sets_defaults_and_grants(people: People) -> None:
    assert quota("topic_count_max=5").topic_count_max == 5
    assert quota("--tenant", "acme", "topic_count_max=50").topic_count_max == 50
    assert limits_of(people.rival.tenant_id).topic_count_max == 5
    assert quota("--tenant", "acme", "topic_count_max=-").topic_count_max == 5
    for bad in ("topic_count_max=0", "unknown=5", "topic_count_max", "topic_count_max=x"):
        with pytest.raises(CommandError):
            quota(bad)
    with pytest.raises(CommandError):
        quota("--tenant", "nobody")


def test_no_more_topics_and_groups_than_allowed(people: People, api: Api, engine: str) -> None:
    quota("--tenant", "acme", "topic_count_max=1", "group_count_max=1")
    client = api(people.acme_key)
    for kind in ("topics", "groups"):
        assert client.put(f"/v1/ns/acme/{kind}/quota-first").status_code == 201
        refused = client.put(f"/v1/ns/acme/{kind}/quota-second")
        assert (refused.status_code, refused.json()["code"]) == (403, "QUOTA_EXCEEDED")
        assert client.put(f"/v1/ns/acme/{kind}/quota-first").status_code == 200  # it is there
        assert client.delete(f"/v1/ns/acme/{kind}/quota-first").status_code == 204
        assert client.put(f"/v1/ns/acme/{kind}/quota-second").status_code == 201
        assert client.delete(f"/v1/ns/acme/{kind}/quota-second").status_code == 204


def test_every_change_is_told_to_web_processes(test_dsn: str) -> None:
    tenant_id = create_people().acme.tenant_id
    with psycopg.connect(test_dsn, autocommit=True) as listener:
        listener.execute("LISTEN mq_invalidate")
        quota("topic_count_max=5")
        quota("--tenant", "acme", "topic_count_max=5")
        told = [notice.payload for notice in listener.notifies(timeout=60, stop_after=2)]
    assert told == ["quota -", f"quota {tenant_id}"]


def test_rows_have_every_limit() -> None:
    assert set(LIMIT_NAMES) <= {field.name for field in QuotaRow._meta.get_fields()}
