"""Shared searches: over REST and in the explorer, who may read and change them, what is audited."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.accounts.models import AuditEntry, Member, Role
from mqservice.searches import services
from mqservice.searches.models import Q_CHARS_MAX, SharedSearch
from tests.people import People

URL = "/v1/ns/acme/searches"
LATE = {"q": "topic:orders tag:late"}
JSON = "application/json"
Api = Callable[[str], Client]


def test_a_search_is_shared_read_changed_and_deleted(people: People, api: Api) -> None:
    key = api(people.acme_key)
    made = key.put(f"{URL}/late", LATE, JSON)
    assert made.status_code == 201
    assert made.json() | {"created_at": "", "updated_at": ""} == {
        "name": "late", "namespace": "acme", **LATE, "created_at": "", "updated_at": "",
    }  # fmt: skip
    assert key.put(f"{URL}/late", LATE, JSON)["ETag"] == made["ETag"] == '"1"'
    changed = key.put(f"{URL}/late", {"q": "order-42"}, JSON, headers={"if-match": '"1"'})
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    late = key.put(f"{URL}/late", LATE, JSON, headers={"if-match": '"1"'})
    assert late.json()["code"] == "PRECONDITION_FAILED"
    assert api(people.acme_reader_key).get(URL).json() == {"searches": [changed.json()]}
    assert api(people.acme_viewer_key).get(URL).json()["code"] == "FORBIDDEN"
    assert api(people.acme_reader_key).delete(f"{URL}/late").json()["code"] == "FORBIDDEN"
    assert key.delete(f"{URL}/late").status_code == 204
    assert key.get(f"{URL}/late").json()["code"] == "SEARCH_NOT_FOUND"
    told = AuditEntry.objects.filter(action__startswith="search.").order_by("id")
    assert [(each.action, each.target, each.before, each.after) for each in told] == [
        ("search.put", "searches/late", None, LATE),
        ("search.put", "searches/late", LATE, {"q": "order-42"}),
        ("search.delete", "searches/late", {"q": "order-42"}, None),
    ]


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("late", {"q": ""}, "/q"),
        ("late", {"q": "tag:late"}, "/q"),
        ("late", {"q": 'topic:orders body:"a'}, "/q"),
        ("late", {"q": "topic:" + "x" * Q_CHARS_MAX}, "/q"),
        ("late", {"q": "k", "more": 1}, "/more"),
        ("l%20ate", LATE, "/name"),
    ],
)
def test_what_cannot_be_shared_is_refused(
    people: People, api: Api, name: str, body: dict[str, object], pointer: str
) -> None:
    answer = api(people.acme_key).put(f"{URL}/{name}", body, JSON)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not SharedSearch.objects.exists()


def test_there_are_only_so_many_of_a_namespace(
    people: People, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SEARCHES_MAX", 2)
    key = api(people.acme_key)
    for name in ("one", "two"):
        assert key.put(f"{URL}/{name}", LATE, JSON).status_code == 201
    assert key.put(f"{URL}/three", LATE, JSON).json()["code"] == "QUOTA_EXCEEDED"
    assert key.put(f"{URL}/two", {"q": "k"}, JSON).status_code == 200
    assert api(people.rival_key).put("/v1/ns/rival/searches/one", LATE, JSON).status_code == 201


def test_the_explorer_shows_shared_searches_to_all_who_read_messages(
    people: People, client: Client
) -> None:
    client.force_login(people.alice)
    path = "/console/acme/messages/searches"
    answer = client.post(path, {"name": " very  late ", "q": "key:<k>"})
    assert answer["Location"] == "/console/acme/messages?q=key%3A%3Ck%3E"
    assert SharedSearch.objects.get().name == "very-late"
    Member.objects.filter(user=people.bob).update(role=Role.DEVELOPER)
    client.force_login(people.bob)

    page = client.get("/console/acme/messages").content.decode()

    assert '<a href="?q=key%3A%3Ck%3E" title="key:&lt;k&gt;">very-late</a>' in page
    assert client.post(path, {"delete": "very-late", "q": ""}).status_code == 302
    assert not SharedSearch.objects.exists()
    refused = client.post(path, {"name": "x", "q": "tag:a"}, follow=True).content.decode()
    assert "must say where to look" in refused


def test_a_viewer_shares_nothing(people: People, client: Client) -> None:
    client.force_login(people.bob)
    answer = client.post("/console/acme/messages/searches", {"name": "x", "q": "key:k"})
    assert answer.status_code == 403
    assert not SharedSearch.objects.exists()


def test_searches_of_one_namespace_are_none_of_another(people: People, api: Api) -> None:
    api(people.acme_key).put(f"{URL}/late", LATE, JSON)
    rival = api(people.rival_key)
    assert rival.get(f"{URL}/late").json()["code"] == "NAMESPACE_NOT_FOUND"
    assert rival.get("/v1/ns/rival/searches").json() == {"searches": []}
