"""Bugs of an installation with several engines."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mqservice.lib.names import MAIN_SHARD
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Several shards", PLANTS)

_SHARDS: Final = "tests/mqservice/shards/test_shards.py"
_PROOF: Final = (
    "tests/storage_engine/server/test_network.py"
    "::test_a_proof_is_good_once_for_one_shard_and_one_side"
)


@planted("storage_engine.wire.proof:EngineProof.accepts", _PROOF)
def proof_that_nobody_checks(real: Real, engine: Thing, proof: Thing) -> Thing:
    return True


@planted("storage_engine.wire.proof:_proof", _PROOF)
def proof_that_is_good_for_every_shard(
    real: Real,
    secret: Thing,
    who: Thing,
    shard: Thing,
    client_nonce: Thing,
    engine_nonce: Thing,
) -> Thing:
    return real(secret, who, "", client_nonce, engine_nonce)


@planted("storage_engine.wire.proof:_proof", _PROOF)
def proof_that_is_good_when_sent_back(
    real: Real,
    secret: Thing,
    who: Thing,
    shard: Thing,
    client_nonce: Thing,
    engine_nonce: Thing,
) -> Thing:
    return real(secret, b"", shard, client_nonce, engine_nonce)


@planted(
    "mqservice.topics.routes:find_topic_route",
    f"{_SHARDS}::test_routes_say_the_shard_of_their_namespace_in_one_query",
)
def route_that_always_leads_to_main(
    real: Real, tenant_id: Thing, namespace: Thing, name: Thing
) -> Thing:
    route = real(tenant_id, namespace, name)
    return None if route is None else replace(route, shard=MAIN_SHARD)


@planted(
    "mqservice.shards.sweeps:_is_resting",
    f"{_SHARDS}::test_each_shard_is_asked_and_one_that_is_away_is_left_alone_for_a_while",
)
def shard_that_holds_up_the_others(real: Real, shard: Thing) -> Thing:
    return False


@planted(
    "mqservice.caches:Caches.clear",
    "tests/mqservice/test_caches.py"
    "::test_a_namespace_that_is_placed_elsewhere_routes_there_at_once",
)
def routes_that_outlive_a_placement(real: Real, caches: Thing) -> Thing:
    return None
