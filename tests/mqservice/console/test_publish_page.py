"""Publishing from a form: once or several times, and what is told of each way it can end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.test import Client

from mqservice.console.messages import publish_views as views_publish
from mqservice.console.shared.data_plane import DataPlaneResponse
from mqservice.topics.models import Topic
from tests.people import People

PATH = "/console/acme/topics/orders/publish"
API = "/v1/ns/acme/topics/orders/messages"
FORM = {"body": '{"n": 1}', "is_json": "on", "tag": "t", "again": "1"}
STORED = {"index": 0, "status": 201, "id": "01AC", "queue": 3}
LOST = {"index": 1, "status": 503, "code": "STORAGE_FULL", "detail": "no room", "stored": False}


class Plane:
    """Answers instead of the data plane, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer = DataPlaneResponse(status=201, data={})
        self.asked: list[tuple[str, Any]] = []  # Any: JSON

    def __call__(
        self, request: object, principal: object, method: str, path: str, *, body: bytes
    ) -> DataPlaneResponse:
        self.asked.append((path, msgspec.json.decode(body)))
        return self.answer


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> Plane:
    plane = Plane()
    monkeypatch.setattr(views_publish, "call_data_plane", plane)
    return plane


@pytest.fixture
def alice(people: People, client: Client) -> Client:
    Topic.objects.create(namespace=people.acme, name="orders")
    client.force_login(people.alice)
    return client


def toast(client: Client) -> str:
    return client.get("/console/acme/topics").content.decode()


def test_a_message_needs_a_body_and_the_form_says_so(alice: Client, plane: Plane) -> None:
    form = alice.get(PATH).content.decode()
    assert '<label for="id_body">Body</label>' in form
    answer = alice.post(PATH, {**FORM, "body": ""})
    assert answer.status_code == 422
    assert b"This field is required." in answer.content
    assert plane.asked == []


@pytest.mark.parametrize("repeat", ["", "1"])
def test_one_message_goes_by_itself(alice: Client, plane: Plane, repeat: str) -> None:
    plane.answer = DataPlaneResponse(status=201, data=STORED)
    assert alice.post(PATH, {**FORM, "repeat": repeat}).status_code == 302
    assert plane.asked == [(API, {"body_json": {"n": 1}, "tag": "t"})]
    assert "Stored in queue 3 as 01AC." in toast(alice)


def test_several_go_as_a_batch_and_all_are_counted(alice: Client, plane: Plane) -> None:
    plane.answer = DataPlaneResponse(status=201, data={"results": [STORED] * 3})
    assert alice.post(PATH, {**FORM, "repeat": "3"}).status_code == 302
    assert plane.asked == [(f"{API}:batch", [{"body_json": {"n": 1}, "tag": "t"}] * 3)]
    assert "3 messages were stored." in toast(alice)


def test_those_that_were_not_stored_are_reported(alice: Client, plane: Plane) -> None:
    plane.answer = DataPlaneResponse(status=207, data={"results": [STORED, LOST, LOST]})
    alice.post(PATH, {**FORM, "repeat": "3"})
    page = toast(alice)
    assert "1 message was stored." in page
    assert "2 not stored: no room" in page
    plane.answer = DataPlaneResponse(status=207, data={"results": [LOST, LOST]})
    alice.post(PATH, {**FORM, "repeat": "2"})
    assert "stored." not in toast(alice)


@pytest.mark.parametrize("repeat", ["0", "-1", "101", "many"])
def test_a_number_out_of_range_sends_nothing(alice: Client, plane: Plane, repeat: str) -> None:
    assert alice.post(PATH, {**FORM, "repeat": repeat}).status_code == 422
    assert plane.asked == []


def test_a_fault_of_all_stands_once_at_its_field(alice: Client, plane: Plane) -> None:
    items = [
        {"pointer": f"/{index}/tag", "code": "ILLEGAL_TAG", "detail": "no such tag"}
        for index in range(3)
    ]
    plane.answer = DataPlaneResponse(
        status=400, data={"code": "ILLEGAL_TAG", "detail": "no such tag", "errors": items}
    )
    answer = alice.post(PATH, {**FORM, "repeat": "3"})
    assert answer.status_code == 422
    text = answer.content.decode()
    fault = text[text.index('id="id_tag_error"') :][:200]
    assert fault.count("no such tag") == 1
