"""The cache that web processes share, with Valkey and without."""

from __future__ import annotations

import logging

import pytest
import redis

from mqservice.lib import shared_cache
from mqservice.lib.shared_cache import SharedCache

NOBODY = "redis://127.0.0.1:1/0"
PARAMS: dict[str, object] = {"KEY_PREFIX": "mq:test"}


def test_two_processes_count_one_number(valkey_server: str) -> None:
    one, other = (SharedCache(valkey_server, dict(PARAMS)) for _ in range(2))
    one.delete("tries")
    assert one.add("tries", 1, timeout=60)
    assert not other.add("tries", 1, timeout=60)
    assert [one.incr("tries"), other.incr("tries")] == [2, 3]
    other.set("times", [1.5, 2.5], timeout=60)
    assert one.get("times") == [1.5, 2.5]
    assert one.touch("times", 30)
    assert one.delete("times")
    assert one.get("times", "nothing") == "nothing"
    with pytest.raises(ValueError, match="not found"):
        one.incr("absent")


def test_nothing_that_valkey_holds_is_unpickled(valkey_server: str) -> None:
    cache = SharedCache(valkey_server, dict(PARAMS))
    cache.set("safe", {"a": [1, "b", None]}, timeout=60)
    with redis.Redis.from_url(valkey_server) as client:
        assert client.get(cache.make_key("safe")) == b'{"a":[1,"b",null]}'


def test_without_valkey_the_process_counts_on_its_own_and_comes_back(
    valkey_server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("mqservice.lib.shared_cache.time.monotonic", lambda: now[0])
    cache = SharedCache(NOBODY, dict(PARAMS))
    with caplog.at_level(logging.WARNING):
        assert cache.add("tries", 1, timeout=60)
        assert not cache.add("tries", 1, timeout=60)
        assert cache.incr("tries") == 2
    assert len(caplog.records) == 1, "Valkey is not asked again at once"
    there = SharedCache(valkey_server, dict(PARAMS))
    there.set("tries", 7, timeout=60)
    cache._remote = there._remote
    assert cache.get("tries") == 2
    now[0] += shared_cache.UNAVAILABLE_SECONDS
    assert cache.get("tries") == 7
