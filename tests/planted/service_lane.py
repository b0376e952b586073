"""Bugs on the short ways of a produce and a receive: a second way of doing a thing invites them."""

from __future__ import annotations

from typing import Final

from mqservice.delivery.lane import Lane
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("The short ways of a produce and of a receive", PLANTS)

_TESTS: Final = "tests/mqservice/delivery/test_produce_lane.py"


@planted(
    "mqservice.delivery.one_put:OnePut.told",
    f"{_TESTS}::test_a_record_that_the_engine_refuses_is_told",
)
def refused_record_called_stored(real: Real, put: Thing, result: Thing) -> Thing:
    return real(put, result._replace(error=None))


@planted(
    "mqservice.delivery.produce_lane:ProduceLane.refuse",
    f"{_TESTS}::test_what_the_store_refuses_is_told",
)
def refusal_that_is_not_counted(real: Real, lane: Thing, request: Thing, exc: Thing) -> None:
    lane._start(lane._plane.refuse(request, exc))


@planted(
    "mqservice.delivery.produce_lane:ProduceLane.take",
    f"{_TESTS}::test_it_answers_as_the_data_plane_does",
)
def key_of_a_request_overlooked(real: Real, lane: Thing, cycle: Thing, headers: Thing) -> Thing:
    headers.pop(b"idempotency-key", None)
    return real(lane, cycle, headers)


@planted(
    "storage_engine.records.plain_record:host_bytes",
    "tests/storage_engine/test_plain_record.py::test_it_is_the_record_of_the_same_message",
)
def plain_record_of_nobody(real: Real, host: Thing) -> bytes:
    return bytes(8)


@planted(
    "mqservice.web_transport:CorkedHttpProtocol.timeout_keep_alive_handler",
    "tests/mqservice/test_keep_alive.py::test_a_request_that_is_under_way_is_no_pause",
)
def pause_counted_while_a_request_is_under_way(real: Real, protocol: Thing) -> None:
    protocol.transport.close()


@planted(
    "mqservice.web_transport:CorkedHttpProtocol._let_go",
    f"{_TESTS}::test_a_request_in_two_reads_is_answered",
)
def request_in_two_reads_forgotten(real: Real, protocol: Thing) -> None:
    protocol._held = None


@planted(
    "mqservice.web_transport:_Proxies.resolve",
    f"{_TESTS}::test_a_proxy_that_is_trusted_speaks_for_its_client",
)
def proxy_taken_for_its_client(real: Real, proxies: Thing, cycle: Thing) -> None:
    pass


@planted(
    "mqservice.delivery.receive_lane:ReceiveLane.refuse",
    "tests/mqservice/delivery/test_receive_lane.py::test_it_answers_as_the_data_plane_does",
)
def refused_receive_that_is_not_charged(
    real: Real, lane: Thing, request: Thing, exc: Thing
) -> None:
    Lane.refuse(lane, request, exc)


@planted(
    "mqservice.lib.signing:Signer.are_new",
    "tests/mqservice/delivery/test_receipt_columns.py::"
    "test_one_that_is_not_like_the_others_is_left_to_be_read_by_itself",
)
def receipts_read_together_whoever_made_them(
    real: Real, signer: Thing, prefix: Thing, payloads: Thing, tags: Thing
) -> bool:
    return True
