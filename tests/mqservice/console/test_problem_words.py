"""Refusals on Chinese pages: what a form can raise is said in Chinese, and in English over REST."""

from __future__ import annotations

import re

import msgspec
import pytest
from django.test import Client
from django.utils import translation
from pytest_django import Settings

from mqservice.alerts.webhook import WebhookFailed, post
from mqservice.attention.causes import of_dead_letters, of_notification
from mqservice.delivery.decoding import Fault
from mqservice.delivery.messages import check_offer, to_offer
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import in_words, problem_text
from mqservice.protocol.messages import ProduceMessage
from mqservice.topics.routes import TopicRoute
from mqservice.topics.services import TopicChange, put_topic
from storage_engine.config import KIB
from tests.mqservice.console.test_alerts_pages import FORM as ALERT
from tests.mqservice.console.test_group_pages import FORM as GROUP
from tests.mqservice.console.test_masking_pages import FORM as MASK
from tests.mqservice.console.test_schedules_pages import FORM as SCHEDULE
from tests.mqservice.console.test_topic_pages import FORM as TOPIC
from tests.people import People

ROOT = "/console/acme"
FAULTS = [
    ("new-topic", TOPIC | {"name": "a b"}),
    ("new-topic", TOPIC | {"name": "TBW102"}),
    ("new-topic", TOPIC | {"queues": "99999"}),
    ("new-topic", TOPIC | {"retention": "long"}),
    ("new-topic", TOPIC | {"retention": "1000000d"}),
    ("new-topic", TOPIC | {"body_bytes_max": "1"}),
    ("topics/orders/edit", TOPIC | {"queues": "1", "revision": "1"}),
    ("new-group", GROUP | {"name": "bill.ing"}),
    ("new-group", GROUP | {"lease": "1"}),
    ("new-group", GROUP | {"lease": "13h"}),
    ("new-group", GROUP | {"retry": "list"}),
    ("new-group", GROUP | {"max_attempts": "0"}),
    ("new-alert", ALERT | {"group": ""}),
    ("new-alert", ALERT | {"emails": "nobody"}),
    ("new-alert", ALERT | {"webhook": "http://example.com"}),
    ("new-alert", ALERT | {"for": "2 days"}),
    ("new-schedule", SCHEDULE | {"topic": "orders", "cron": "* * *"}),
    ("new-schedule", SCHEDULE | {"topic": "orders", "time_zone": "Mars"}),
    ("new-schedule", SCHEDULE | {"topic": "nowhere"}),
    ("new-schedule", SCHEDULE | {"topic": "orders", "tag": "a|b"}),
    ("new-schedule", SCHEDULE | {"topic": "orders", "keys": "a b"}),
    ("new-mask", MASK | {"path": "card"}),
    ("new-mask", MASK | {"topics": "*a"}),
]
# What the data plane says of a message in the form.
OF_MESSAGES = [
    {"tag": "a|b"},
    {"tag": "t" * 300},
    {"keys": [" "]},
    {"keys": ["k"] * 17},
    {"message_group": ""},
    {"delay": "soon"},
    {"delay": "366d"},
    {"properties": {"": "x"}},
    {"properties": {f"p{at}": "x" for at in range(200)}},
    {"body": "x" * (64 * KIB + 1)},
]


def route_of(kind: str) -> TopicRoute:
    return TopicRoute(
        namespace="acme",
        name="orders",
        shard=MAIN_SHARD,
        engine_name="acme%orders",
        queue_count=2,
        body_bytes_max=64 * KIB,
        durability="sync",
        message_type=kind,
    )


def said(page: str) -> list[str]:
    """The faults on a page, without their markup."""
    found = re.findall(r'<p class="(?:fault|error)"[^>]*>(.*?)</p>', page, re.DOTALL)
    return [re.sub("<[^>]*>", "", text).strip() for text in found]


@pytest.mark.parametrize(("path", "form"), FAULTS)
def test_fault_of_a_form_is_in_the_language_of_the_page(
    people: People, engine: str, alice: Client, settings: Settings, path: str, form: dict[str, str]
) -> None:
    settings.MQ_EMAIL_URL = "smtp://localhost"  # so that alerts can name addresses
    put_topic(people.acme, "orders", TopicChange(queue_count=2, body_bytes_max=65_536))
    headers = {"accept-language": "zh-hans"}

    answer = alice.post(f"{ROOT}/{path}", form, headers=headers)

    assert answer.status_code == 422
    faults = said(answer.content.decode())
    assert faults
    assert not [text for text in faults if text.isascii()]


@pytest.mark.parametrize("message", OF_MESSAGES)
def test_fault_of_a_message_is_known_by_its_text(message: dict[str, object]) -> None:
    route = route_of("mixed")
    with pytest.raises(Fault) as fault:
        check_offer(to_offer(msgspec.convert({"body": "x", **message}, ProduceMessage)), route)
    with translation.override("zh-hans"):
        assert not in_words(fault.value.detail).isascii()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("fifo", {}),
        ("normal", {"message_group": "a"}),
        ("delay", {}),
        ("fifo", {"message_group": "a", "delay": "1m"}),
    ],
)
def test_fault_of_a_message_that_does_not_fit_its_topic_is_known_by_its_text(
    kind: str, message: dict[str, object]
) -> None:
    with pytest.raises(Fault) as fault:
        offer = to_offer(msgspec.convert({"body": "x", **message}, ProduceMessage))
        check_offer(offer, route_of(kind))
    with translation.override("zh-hans"):
        assert not in_words(fault.value.detail).isascii()


def no_address(_host: str, _port: int) -> list[str]:
    raise OSError("there is no such name")


def test_why_a_webhook_failed_is_known_by_its_text() -> None:
    with pytest.raises(WebhookFailed) as failure:
        post("https://hooks.example.com/", b"", {}, allowed=(), resolve=no_address)
    with translation.override("zh-hans"):
        text = of_notification("webhook", str(failure.value), 3)
    assert "无法解析其主机名" in text


def test_the_only_reason_of_dead_letters_is_text_in_the_readers_language() -> None:
    with translation.override("zh-hans"):
        text = of_dead_letters(
            count=2, reason="card declined", reason_count=2, other_reasons=0, newest_ms=1_000
        )
    assert "原因：card declined" in text


def test_unknown_text_and_a_part_without_a_translation_stay_as_they_are() -> None:
    with translation.override("zh-hans"):
        assert in_words("nobody wrote this down") == "nobody wrote this down"
        assert in_words("so odd, found 5") == "so odd, found 5"
        assert in_words("a tag is odd") == "a tag is odd"


def test_numbers_and_place_of_a_refusal_are_kept() -> None:
    refusal = Problem.of("ILLEGAL_SETTING", "/queues: must be in [1, 1024], found 5%s")
    with translation.override("zh-hans"):
        assert problem_text(refusal) == "/queues: 必须在 1 到 1024 之间，收到的是 5%s"
    with translation.override("en"):
        assert problem_text(refusal) == refusal.detail


def test_a_refusal_without_details_is_text_by_its_title() -> None:
    with translation.override("zh-hans"):
        assert problem_text(Problem.of("TOPIC_NOT_FOUND", "")) == "没有该主题"
