"""One limit in several processes: its parts add up, whoever asks gets his share, Valkey may go."""

from __future__ import annotations

import contextlib

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from mqservice.lib.problem import Problem
from mqservice.quotas.bucket import TokenBucket, TrafficBuckets
from mqservice.quotas.exchange import (
    DEPARTED_MS,
    Exchange,
    ExchangeUnavailable,
    ValkeyExchange,
)
from mqservice.quotas.limits import DEFAULTS, QuotaLimits, effective
from mqservice.quotas.meter import TenantMeter
from mqservice.quotas.meters import TICK_MS, Meters
from mqservice.quotas.shares import fair_share
from tests.mqservice.quotas.doubles import ManualClock, MemoryExchange

TENANT = 7
LIMITS = QuotaLimits(
    messages_in_per_second=1_000,
    bytes_in_per_second=1_000_000,
    messages_out_per_second=1_000,
    bytes_out_per_second=1_000_000,
    connection_count_max=10,
    parked_poll_count_max=10,
)


async def limits_of(tenant_id: int) -> QuotaLimits:
    return LIMITS


def attempt(meter: TenantMeter, count: int, now_ms: int) -> int:
    """How many of ``count`` single messages are let through."""
    taken = 0
    for _ in range(count):
        with contextlib.suppress(Problem):
            meter.charge_in(1, 10, now_ms)
            taken += 1
    return taken


class Cluster:
    """Some processes with one exchange."""

    def __init__(self, clock: ManualClock, exchanges: list[Exchange]) -> None:
        self.clock = clock
        self.all = [Meters(limits_of, clock, exchange=exchange) for exchange in exchanges]

    async def begin(self) -> None:
        for _ in range(2):  # the second time all know of all
            await self.pass_time(1_000)

    async def pass_time(self, ms: int) -> None:
        self.clock.ms += ms
        for meters in self.all:
            await meters.tick()

    async def meters_of_tenant(self) -> list[TenantMeter]:
        return [await meters.load(TENANT) for meters in self.all]

    async def run(self, seconds: int, demands: list[int]) -> list[int]:
        """How many messages each lets through when it is asked for so many a tick."""
        meters = await self.meters_of_tenant()
        taken = [0] * len(meters)
        for _ in range(seconds * 1_000 // TICK_MS):
            for index, (meter, demand) in enumerate(zip(meters, demands, strict=True)):
                taken[index] += attempt(meter, demand, self.clock.ms)
            await self.pass_time(TICK_MS)
        return taken


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> MemoryExchange:
    return MemoryExchange(clock)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8), st.integers(0, 4))
def test_shares_of_the_same_demands_add_up_to_the_limit(
    demands: list[float], silent_count: int
) -> None:
    count = len(demands) + silent_count
    shares = [
        fair_share(1_000, own, demands[:index] + demands[index + 1 :], count)
        for index, own in enumerate(demands)
    ]
    silent = 1_000 * 0.1 / count
    assert sum(shares) + silent * silent_count <= 1_000 * (1 + 1e-9)
    if not silent_count:
        assert sum(shares) == pytest.approx(1_000)
    if sum(max(demand, silent) for demand in demands) <= 1_000 - silent * silent_count:
        assert all(share >= demand for share, demand in zip(shares, demands, strict=True))


def test_a_bucket_is_overdrawn_once_and_pays_back() -> None:
    bucket = TokenBucket(100, 100, now_ms=0)
    assert bucket.left(0) == 100
    bucket.take(500)
    assert bucket.left(3_999) <= 0
    assert bucket.wait_ms() in (1, 2)
    assert bucket.left(4_001) > 0
    assert bucket.left(4_000) > 0  # a clock that is asked twice gives nothing twice
    assert bucket.left(1_000_000) == 100


def test_messages_and_bytes_wait_for_whichever_is_used_up() -> None:
    buckets = TrafficBuckets((100, 1_000), (100, 1_000), now_ms=0)
    assert not buckets.is_empty(0)
    buckets.take(50, 3_000)
    assert buckets.is_empty(1_999)
    messages_wait_ms, bytes_wait_ms = buckets.waits_ms()
    assert messages_wait_ms == 0
    assert bytes_wait_ms in (1, 2)
    assert not buckets.is_empty(2_001)
    assert not buckets.is_empty(2_000)  # a clock that is asked twice gives nothing twice
    buckets.take(100, 0)
    assert buckets.is_empty(2_001)
    assert buckets.states() == [(0, 2), (1, 1)]
    buckets.change((100, 1_000), (10, 10), now_ms=1_000_000)
    assert buckets.states() == [(10, 0), (10, 0)]


def test_the_operators_word_holds_and_the_tenant_only_lowers_it() -> None:
    limits = effective(
        {"topic_count_max": 5, "group_count_max": 6},
        {"group_count_max": 60},
        {"topic_count_max": 3, "group_count_max": 100},
    )
    assert (limits.topic_count_max, limits.group_count_max) == (3, 60)
    assert limits.messages_in_per_second == DEFAULTS.messages_in_per_second


async def test_one_process_has_all_of_it_and_notifies_nobody_of_tenants(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory])
    await cluster.begin()
    assert (await cluster.run(10, [500]))[0] == pytest.approx(11_000, rel=0.02)  # burst included
    assert memory.reports == {}
    assert memory.swap_count < 20  # its presence, once a second


async def test_a_flood_through_two_processes_gets_the_limit_once(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory, memory])
    await cluster.begin()
    taken = await cluster.run(10, [1_000, 1_000])
    assert sum(taken) == pytest.approx(11_000, rel=0.03)
    assert taken[0] == pytest.approx(taken[1], rel=0.1)


async def test_little_demand_is_met_beside_a_flood_elsewhere(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory, memory])
    await cluster.begin()
    taken = await cluster.run(10, [2_000, 20])
    assert taken[1] == 20 * 100  # all of it
    assert sum(taken) == pytest.approx(10_500, rel=0.03)  # half a burst is not asked for


async def test_a_tenant_that_uses_one_process_only_gets_nearly_all(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory, memory])
    await cluster.begin()
    assert (await cluster.run(10, [2_000, 0]))[0] >= 9_500


async def test_without_valkey_each_keeps_to_an_equal_part_and_says_so(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory, memory])
    await cluster.begin()
    memory.is_away = True
    assert sum(await cluster.run(10, [1_000, 1_000])) == pytest.approx(11_000, rel=0.05)
    assert [meters.is_degraded for meters in cluster.all] == [True, True]
    assert (await cluster.run(10, [1_000, 0]))[0] == pytest.approx(5_000, rel=0.1)
    memory.is_away = False
    await cluster.pass_time(1_000)
    assert [meters.is_degraded for meters in cluster.all] == [False, False]


async def test_the_part_of_a_process_that_died_goes_to_the_others(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory, memory])
    await cluster.begin()
    await cluster.run(2, [1_000, 1_000])
    cluster.all.pop()
    for _ in range(DEPARTED_MS // 1_000):
        await cluster.pass_time(1_000)
    assert cluster.all[0].process_count == 1
    assert (await cluster.run(5, [1_000]))[0] == pytest.approx(5_500, rel=0.03)


async def test_sockets_of_two_processes_count_together(
    clock: ManualClock, memory: MemoryExchange
) -> None:
    cluster = Cluster(clock, [memory, memory])
    await cluster.begin()
    first, second = await cluster.meters_of_tenant()
    for _ in range(20):
        for meter in (first, second):
            with contextlib.suppress(Problem):
                meter.admit_socket()
            await cluster.pass_time(TICK_MS)
    assert 9 <= first.socket_count + second.socket_count <= LIMITS.connection_count_max


async def test_a_change_of_limits_holds_from_the_next_tick_on(clock: ManualClock) -> None:
    current = LIMITS

    async def changing(tenant_id: int) -> QuotaLimits:
        return current

    meters = Meters(changing, clock)
    meter = await meters.load(TENANT)
    current = QuotaLimits(messages_in_per_second=2)
    clock.ms += TICK_MS
    await meters.tick()
    assert attempt(meter, 100, clock.ms) == 2
    with pytest.raises(Problem) as refused:
        meter.check_in(clock.ms)
    assert (refused.value.status, refused.value.code) == (429, "RATE_LIMITED")
    assert "messages-in" in refused.value.detail
    assert refused.value.stored is False


async def test_meters_of_idle_tenants_are_forgotten_unless_they_hold_something(
    clock: ManualClock,
) -> None:
    meters = Meters(limits_of, clock)
    for tenant_id in range(100):
        await meters.load(tenant_id)
    meters.known[3].admit_socket()
    clock.ms += 61_000
    await meters.tick()
    assert list(meters.known) == [3]


async def test_the_real_exchange_splits_as_the_double_does(
    valkey_server: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqservice.quotas.exchange._SWAP_SECONDS_MAX", 60.0)
    exchanges: list[Exchange] = [ValkeyExchange(valkey_server), ValkeyExchange(valkey_server)]
    cluster = Cluster(clock, exchanges)
    await cluster.begin()
    assert [meters.process_count for meters in cluster.all] == [2, 2]
    taken = await cluster.run(3, [1_000, 20])
    assert taken[1] == 20 * 30
    assert sum(taken) == pytest.approx(3_500, rel=0.1)
    for exchange in exchanges:
        await exchange.aclose()


async def test_a_process_that_is_silent_for_long_is_forgotten(valkey_server: str) -> None:
    exchange = ValkeyExchange(valkey_server)
    demand = (1.0, 2.5, 3.0, 4.0, 5, 6)
    with redis.Redis.from_url(valkey_server) as valkey:
        valkey.delete("mq:quota:processes", f"mq:quota:{TENANT}")
        await exchange.swap("gone", {TENANT: demand})
        assert await exchange.swap("here", {TENANT: demand}) == (1, {TENANT: [demand]})
        for key in ("mq:quota:processes", f"mq:quota:{TENANT}"):
            valkey.hset(key, "gone", "1000 [1,2,3,4,5,6]")  # of 1970
        assert await exchange.swap("here", {TENANT: demand}) == (0, {TENANT: []})
        assert valkey.hkeys("mq:quota:processes") == [b"here"]
        for other, report in {"newer": "[1,2,3]", "odd": "7 8 9"}.items():
            valkey.hset(f"mq:quota:{TENANT}", other, f"9000000000000 {report}")
        assert await exchange.swap("here", {TENANT: demand}) == (0, {TENANT: []})
    await exchange.aclose()


async def test_an_exchange_that_nobody_answers_says_so() -> None:
    exchange = ValkeyExchange("redis://127.0.0.1:1/0")
    with pytest.raises(ExchangeUnavailable):
        await exchange.swap("a", {})
    await exchange.aclose()
