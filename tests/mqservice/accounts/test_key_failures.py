"""Wrong keys are counted by address, and after many of them more are told to wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
from django.test import Client

from mqservice.accounts import rest
from mqservice.accounts.key_failures import KeyFailures
from mqservice.asgi import Application
from mqservice.caches import Caches
from mqservice.delivery.context import process_context
from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.problem import Problem
from mqservice.lib.throttle import Throttle
from mqservice.store import close_store
from tests.clock import ManualClock
from tests.people import People

HERE = "192.0.2.7"
LIMIT = 3


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def failures(clock: ManualClock) -> KeyFailures:
    return KeyFailures(limit=LIMIT, clock=clock)


def blocked(failures: KeyFailures, address: str) -> bool:
    try:
        failures.check(address)
    except Problem as problem:
        return problem.code == "RATE_LIMITED" and bool(problem.retry_after_ms)
    return False


def test_address_waits_until_the_minute_is_over(failures: KeyFailures, clock: ManualClock) -> None:
    for _ in range(LIMIT):
        assert not blocked(failures, HERE)
        failures.note(HERE)
    assert blocked(failures, HERE)
    assert not blocked(failures, "192.0.2.8")
    clock.advance(60_000)
    assert not blocked(failures, HERE)


def test_addresses_of_one_network_are_one_client(failures: KeyFailures) -> None:
    for number in range(LIMIT):
        failures.note(f"2001:db8:1:2::{number}")
    assert blocked(failures, "2001:db8:1:2:ffff::1")
    assert not blocked(failures, "2001:db8:1:3::1")


def test_processes_count_together(failures: KeyFailures, clock: ManualClock) -> None:
    other = KeyFailures(limit=LIMIT, clock=clock)
    for each in (failures, other, failures):
        each.note(HERE)
    assert blocked(failures, HERE)


def test_what_is_remembered_is_bounded(
    failures: KeyFailures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqservice.accounts.key_failures.ADDRESSES_MAX", 2)
    for number in range(1, 4):
        for _ in range(LIMIT):
            failures.note(f"192.0.2.{number}")
    assert [blocked(failures, f"192.0.2.{number}") for number in range(1, 4)] == [False, True, True]


def test_control_plane_answers_429_with_when_to_come_again(
    people: People, api: Callable[[str], Client], failures: KeyFailures,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(rest, "failures", failures)
    wrong = [api(generate_api_key()).get("/v1/namespaces").status_code for _ in range(LIMIT + 1)]
    assert wrong == [401, 401, 401, 429]
    answer = api(generate_api_key()).get("/v1/namespaces")
    assert answer.json()["code"] == "RATE_LIMITED"
    assert int(answer.headers["Retry-After"]) > 0
    elsewhere = api(generate_api_key()).get("/v1/namespaces", REMOTE_ADDR="192.0.2.9")
    assert elsewhere.status_code == 401
    good = api(people.acme_owner_key).get("/v1/namespaces")
    assert good.status_code == 200, "a key that verifies does not wait for others' wrong ones"


async def test_data_plane_serves_good_keys_however_many_wrong_ones_come(
    engine: str, people: People, failures: KeyFailures
) -> None:
    context = replace(process_context(), caches=Caches(), failures=failures)
    path = "/v1/ns/acme/topics/none/messages"
    transport = httpx.ASGITransport(app=Application(lambda: context))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:

            async def status(key: str) -> int:
                answer = await client.get(path, headers={"authorization": f"Bearer {key}"})
                return answer.status_code

            assert await status(people.acme_key) == 404, "is cached from now on"
            wrong = [await status(generate_api_key()) for _ in range(LIMIT + 1)]
            assert wrong == [401, 401, 401, 429]
            assert await status(people.acme_key) == 404
            assert await status(people.acme_reader_key) == 404, "one that was never seen before"
    finally:
        await close_store()


def test_throttle_lets_so_many_through_in_each_window(clock: ManualClock) -> None:
    throttle = Throttle("test", limit=2, window_s=10, clock=clock)
    throttle.spend("a", "tries")
    throttle.spend("a", "tries")
    with pytest.raises(Problem) as refusal:
        throttle.spend("a", "tries")
    assert 0 < (refusal.value.retry_after_ms or 0) <= 10_000
    throttle.spend("b", "tries")
    clock.advance(10_000)
    throttle.spend("a", "tries")
