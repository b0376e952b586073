"""Bugs on the one road of a produce and a receive: from the parser to the reply."""

from __future__ import annotations

from typing import Final

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("The road of a produce and of a receive", PLANTS)

_TESTS: Final = "tests/mqservice/delivery/test_produce_whole.py"


@planted(
    "mqservice.delivery.produce.put:Put.set_result",
    f"{_TESTS}::test_a_record_that_the_engine_refuses_is_reported",
)
def refused_record_called_stored(real: Real, put: Thing, results: Thing) -> None:
    real(put, [result._replace(error=None) for result in results])


@planted(
    "mqservice.delivery.plane:DataPlane.fail",
    f"{_TESTS}::test_what_the_store_refuses_is_reported",
)
def refusal_that_is_not_counted(real: Real, plane: Thing, request: Thing, error: Thing) -> None:
    request.is_counted = True
    real(plane, request, error)


@planted(
    "mqservice.delivery.plane:DataPlane.take",
    f"{_TESTS}::test_it_is_answered_as_in_a_task",
)
def key_of_a_request_overlooked(real: Real, plane: Thing, cycle: Thing, headers: Thing) -> Thing:
    headers.pop(b"idempotency-key", None)
    return real(plane, cycle, headers)


@planted(
    "storage_engine.records.record:encode_plain",
    "tests/storage_engine/records/test_plain_record.py::test_it_is_the_record_of_the_same_message",
)
def plain_record_without_host(
    real: Real,
    *,
    topic: str,
    queue_id: int,
    body: bytes,
    message_id: str,
    born_timestamp_ms: int,
    born_host: tuple[str, int],
) -> Thing:
    return real(
        topic=topic,
        queue_id=queue_id,
        body=body,
        message_id=message_id,
        born_timestamp_ms=born_timestamp_ms,
        born_host=("0.0.0.0", 0),
    )


@planted(
    "mqservice.web.transport:CorkedHttpProtocol.timeout_keep_alive_handler",
    "tests/mqservice/test_keep_alive.py::test_a_request_that_is_under_way_is_no_pause",
)
def pause_counted_while_a_request_is_under_way(real: Real, protocol: Thing) -> None:
    protocol.transport.close()


@planted(
    "mqservice.web.transport:CorkedHttpProtocol._let_go",
    f"{_TESTS}::test_a_large_body_is_read_by_a_task",
)
def request_with_a_large_body_forgotten(real: Real, protocol: Thing) -> None:
    protocol._held = None


@planted(
    "mqservice.web.transport:_Proxies.resolve",
    f"{_TESTS}::test_a_proxy_that_is_trusted_speaks_for_its_client",
)
def proxy_taken_for_its_client(real: Real, proxies: Thing, cycle: Thing) -> None:
    pass


@planted(
    "mqservice.delivery.plane:DataPlane._count",
    "tests/mqservice/delivery/test_receive_whole.py::test_a_receive_that_is_refused_is_charged",
)
def refused_receive_that_is_not_charged(
    real: Real, plane: Thing, request: Thing, is_answered: Thing
) -> None:
    request.is_charged = request.is_charged and is_answered
    real(plane, request, is_answered=is_answered)


@planted(
    "mqservice.lib.signing:Signer.are_new",
    "tests/mqservice/delivery/test_receipt_columns.py::"
    "test_one_that_is_not_like_the_others_is_left_to_be_read_on_its_own",
)
def receipts_read_together_whoever_made_them(
    real: Real, signer: Thing, prefix: Thing, payloads: Thing, tags: Thing
) -> bool:
    return True
