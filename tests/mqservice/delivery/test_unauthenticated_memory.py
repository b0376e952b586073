"""Nothing of a caller without a key is remembered, and of others a bounded number of bytes."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from mqservice.accounts.access import Principal
from mqservice.caches import RouteCache, RouteKey
from mqservice.delivery import plane
from mqservice.lib.problem import Problem
from mqservice.lib.throttle import ADDRESS_CHARS_MAX, network_of
from tests.mqservice.delivery.serving import ALL_SCOPES, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

LONG = "n" * 60_000
REQUESTS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        running.topic("orders")
        yield running


def status_of(server: Server, path: str, key: str | None) -> int:
    headers = {} if key is None else {"authorization": key}
    peer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        peer.request("POST", path, b"x", {"content-type": "text/plain", **headers})
        return peer.getresponse().status
    finally:
        peer.close()


@pytest.mark.parametrize("given", [None, "Bearer mqk_wrong"])
def test_paths_of_callers_without_a_key_are_not_kept(server: Server, given: str | None) -> None:
    before = plane._matches.total_bytes
    for n in range(REQUESTS):
        assert status_of(server, f"/v1/ns/{n}/topics/orders/messages", given) == 401
        assert status_of(server, f"/v1/ns/{n}{LONG}/topics/orders/messages", given) == 401
    assert plane._matches.total_bytes == before


def test_path_of_a_good_key_is_kept_unless_it_is_long(server: Server) -> None:
    key = server.key()
    assert status_of(server, "/v1/ns/acme/topics/orders/messages", key) == 201
    assert plane.known_match("/v1/ns/acme/topics/orders/messages") is not None
    long = f"/v1/ns/{LONG}/topics/orders/messages"
    assert status_of(server, long, key) == 404
    assert plane.known_match(long) is None


async def test_only_names_that_can_exist_are_looked_up_and_remembered() -> None:
    asked: list[RouteKey] = []

    async def find(key: RouteKey) -> None:
        asked.append(key)

    routes = RouteCache(find, find)
    of_all_namespaces = Principal(
        key_id="k", tenant_id=1, tenant="t", namespace_id=None, namespace=None, scopes=ALL_SCOPES
    )
    for ns, name in ((LONG, "orders"), ("acme", LONG), ("a.b", "orders")):
        for load in (routes.load_topic, routes.load_group):
            with pytest.raises(Problem):
                await load(of_all_namespaces, ns, name)
    assert asked == []
    with pytest.raises(Problem):
        await routes.load_topic(of_all_namespaces, "acme", "orders")
    assert asked == [(1, "acme", "orders")]


def test_what_a_proxy_calls_an_address_is_cut() -> None:
    assert len(network_of(LONG)) == ADDRESS_CHARS_MAX
    assert network_of("2001:db8::1") == network_of("2001:db8::2")
