"""The rate of control requests: counted by Valkey for all processes, let through without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from mqservice.quotas import control_rate
from mqservice.quotas.control_rate import BURST_SECONDS, ControlRate
from mqservice.quotas.models import Source
from mqservice.quotas.services import put_limits
from mqservice.usage.counts import usage_counts
from tests.mqservice.quotas.doubles import ManualClock
from tests.people import People

Api = Callable[[str], Client]
NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valkey's stands still, and it is waited for: a slow machine would get more, or all."""
    its_time = "redis.call('TIME')"
    assert its_time in control_rate._TAKE
    monkeypatch.setattr(control_rate, "_TAKE", control_rate._TAKE.replace(its_time, "{1, 0}"))
    monkeypatch.setattr(control_rate, "_WAIT_SECONDS_MAX", 60.0)


@pytest.fixture
def slow(people: People) -> People:
    """Tenant acme may ask twice a second."""
    put_limits(None, people.acme.tenant, Source.OPERATOR, {"control_requests_per_second": 2})
    return people


def test_processes_share_one_bucket_and_tenants_do_not(slow: People, valkey_server: str) -> None:
    here, there = ControlRate(valkey_server), ControlRate(valkey_server)
    taken = [rate.take(slow.acme.tenant_id) for rate in (here, there, here, there, here)]
    assert [one.is_taken for one in taken] == [True] * 2 * BURST_SECONDS + [False]
    assert [one.left for one in taken] == [3, 2, 1, 0, 0]
    assert 0 < taken[-1].retry_ms <= 500
    assert here.take(slow.rival.tenant_id).is_taken
    here.close()
    there.close()


def test_a_tenant_above_its_rate_is_told_when_to_come_back(
    slow: People, api: Api, valkey_server: str
) -> None:
    client = api(slow.acme_key)
    answers = [client.get("/v1/quotas") for _ in range(2 * BURST_SECONDS + 1)]
    assert [answer.status_code for answer in answers[:-1]] == [200] * 2 * BURST_SECONDS
    first, last = answers[0], answers[-1]
    assert first["RateLimit-Policy"] == '"control";q=4;w=2'
    assert first["RateLimit"] == '"control";r=3;t=1'
    assert (last.status_code, last.json()["code"]) == (429, "RATE_LIMITED")
    assert last["Retry-After"] == "1"
    assert last.json()["retry_after_ms"] <= 500
    assert last["RateLimit"].startswith('"control";r=0;t=')
    assert api(slow.rival_key).get("/v1/quotas").status_code == 200
    stranger = Client().get("/v1/quotas")
    assert stranger.status_code == 401
    assert "RateLimit" not in stranger


def test_without_valkey_everything_goes_through_and_it_is_asked_seldom(slow: People) -> None:
    clock = ManualClock()
    rate = ControlRate(NOBODY, clock)
    taken = [rate.take(slow.acme.tenant_id) for _ in range(20)]
    assert all(one.is_taken and one.left is None for one in taken)
    assert taken[0].headers == {"RateLimit-Policy": '"control";q=4;w=2'}
    asked = rate._unavailable_until_ms
    clock.ms += 999
    rate.take(slow.acme.tenant_id)
    assert rate._unavailable_until_ms == asked
    clock.ms += 1
    rate.take(slow.acme.tenant_id)
    assert rate._unavailable_until_ms > asked
    rate.close()


def test_calls_of_the_control_plane_are_counted(people: People, api: Api) -> None:
    usage_counts.drain()
    client = api(people.acme_key)
    for path in ("/v1/quotas", "/v1/ns/acme/topics/absent"):
        client.get(path)
    Client().get("/v1/quotas")
    assert usage_counts.drain().calls == {people.acme.tenant_id: 2}
