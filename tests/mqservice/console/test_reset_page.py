"""Offset resets in the console: what the preview shows, and that nothing is applied without one."""

from __future__ import annotations

import html
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from mqservice.accounts.models import AuditEntry, Role
from mqservice.accounts.services import set_role
from mqservice.console.shared import signed_previews
from mqservice.store import StoreClient
from mqservice.topics.models import Topic
from tests.mqservice.groups.reading import Reader
from tests.people import People


@pytest.fixture
def reader(acme: Client, store: StoreClient) -> Reader:
    """Five messages in queue 0 and two in queue 1, of which the group has settled three and one."""
    reader = Reader.of_two_queues(acme, store)
    reader.seek({"offset": 3, "queue": 0})
    reader.seek({"offset": 1, "queue": 1})
    return reader


def path(reader: Reader) -> str:
    return f"/console/acme/groups/{reader.group}/reset"


def send(client: Client, reader: Reader, **fields: object) -> HttpResponse:
    answer = client.post(path(reader), {"topic": reader.topic, **fields})
    assert isinstance(answer, HttpResponse)
    return answer


def token_of(answer: HttpResponse) -> str:
    found = re.search(r'name="token" value="([^"]+)"', answer.content.decode())
    assert found is not None, answer.content
    return html.unescape(found[1])


def rows_of(answer: HttpResponse) -> list[list[str]]:
    """Cells of the preview's table, without what a phone shows beside them."""
    text = re.sub(r'<span class="only-narrow">.*?</span>', "", answer.content.decode())
    table = text[text.index('id="preview"') :].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    return [re.sub(r"<[^>]+>", " ", row).split() for row in rows]


def seeks() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action="group.seek", actor="user:alice").order_by("id"))


@pytest.mark.parametrize(
    ("fields", "to"),
    [
        ({"place": "earliest"}, [0, 0]),
        ({"place": "latest"}, [5, 2]),
        ({"place": "latest", "queue": "1"}, [3, 2]),
        ({"place": "offset", "queue": "0", "offset": "4"}, [4, 1]),
        ({"place": "shift", "shift": "-2"}, [1, 0]),
        ({"place": "time", "time": "2020-01-01T00:00"}, [0, 0]),
    ],
)
def test_what_was_previewed_is_applied_and_written_down(
    alice: Client, reader: Reader, fields: dict[str, str], to: list[int]
) -> None:
    before = reader.consumer_offsets()
    preview = send(alice, reader, **fields)
    assert preview.status_code == 200
    shown = {int(cells[0]): (int(cells[1]), int(cells[2])) for cells in rows_of(preview)}
    assert shown == {
        at: (before[at], to[at]) for at in (0, 1) if fields.get("queue", str(at)) == str(at)
    }
    assert reader.consumer_offsets() == before
    assert seeks() == []

    done = send(alice, reader, token=token_of(preview))

    assert done.status_code == 302
    assert reader.consumer_offsets() == to
    (entry,) = seeks()
    assert {each["queue"]: (each["from"], each["to"]) for each in entry.details["queues"]} == shown


def test_preview_counts_what_is_replayed_skipped_and_in_flight(
    alice: Client, reader: Reader
) -> None:
    reader.receive(1)
    text = " ".join(send(alice, reader, place="latest").content.decode().split())
    assert "1 message is in flight" in text
    assert ["0", "3", "5", "0", "2", "1", "5"] in rows_of(send(alice, reader, place="latest"))


def test_preview_that_is_no_longer_so_is_shown_again_and_not_applied(
    alice: Client, reader: Reader
) -> None:
    preview = send(alice, reader, place="latest")
    reader.ack(reader.receive(1))
    moved = reader.consumer_offsets()

    refused = send(alice, reader, token=token_of(preview))

    assert refused.status_code == 409
    assert b"Offsets have moved" in refused.content
    assert reader.consumer_offsets() == moved
    reader.put(1)
    done = send(alice, reader, token=token_of(refused), anyway="1")
    assert done.status_code == 302
    assert reader.consumer_offsets() == [6, 2]


def test_shift_that_is_sent_twice_is_done_once(alice: Client, reader: Reader) -> None:
    token = token_of(send(alice, reader, place="shift", shift="-1"))
    assert send(alice, reader, token=token).status_code == 302
    assert send(alice, reader, token=token).status_code == 409
    assert send(alice, reader, token=token, anyway="1").status_code == 302
    assert reader.consumer_offsets() == [2, 0]  # where it was shown to lead


def test_nothing_is_applied_of_what_was_not_previewed_by_the_same_person_lately(
    people: People, alice: Client, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = reader.consumer_offsets()
    token = token_of(send(alice, reader, place="latest"))
    set_role(people.acme.tenant, people.bob, Role.DEVELOPER)
    other = Client()
    other.force_login(people.bob)
    for client, given in ((alice, token[:-1]), (alice, "x"), (other, token)):
        assert send(client, reader, token=given, anyway="1").status_code == 422
    monkeypatch.setattr(signed_previews, "PREVIEW_SECONDS_MAX", -1)
    assert send(alice, reader, token=token).status_code == 422
    assert reader.consumer_offsets() == before
    assert seeks() == []


@pytest.mark.parametrize(
    ("fields", "field", "told"),
    [
        ({"place": "offset", "offset": "4"}, "queue", "whole number"),
        ({"place": "offset", "offset": "9", "queue": "0"}, "offset", "not in [0, 5]"),
        ({"place": "offset", "queue": "0"}, "offset", "whole number"),
        ({"place": "time", "time": "soon"}, "time", "RFC 3339"),
        ({"place": "time"}, "time", "RFC 3339"),
        ({"place": "shift"}, "shift", "whole number"),
        ({"place": "elsewhere"}, "place", "not one of the available choices"),
        ({"place": "latest", "queue": "7"}, "queue", "not one of the available choices"),
    ],
)
def test_fault_is_reported_at_its_field_and_there_is_nothing_to_apply(
    alice: Client, reader: Reader, fields: dict[str, str], field: str, told: str
) -> None:
    answer = send(alice, reader, **fields)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert told in text[text.index(f'id="id_{field}_error"') :][:300]
    assert 'name="token"' not in text


def test_form_is_filled_with_where_the_group_stands(alice: Client, reader: Reader) -> None:
    text = alice.get(f"{path(reader)}?place=offset&queue=0").content.decode()
    assert re.search(r'name="offset" value="3"', text)
    assert f"?topic={reader.topic}&amp;place=offset&amp;queue=0&amp;offset=5" in text


def test_topic_of_someone_else_is_none(people: People, alice: Client, reader: Reader) -> None:
    Topic.objects.create(namespace=people.rival, name="theirs")
    for name in ("theirs", "nothing"):
        assert alice.get(f"{path(reader)}?topic={name}").status_code == 404
        assert alice.post(path(reader), {"topic": name, "place": "latest"}).status_code == 404
