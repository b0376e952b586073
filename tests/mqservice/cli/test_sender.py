"""Each message gets one verdict, and is sent again only when that cannot store it twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
from mqservice_client import MQError, Stored
from mqservice_client.http_calls import ALONE_BYTES_MIN

from mqservice.cli.errors import RequestRejected, Unreachable
from mqservice.cli.library_errors import explain
from mqservice.cli.messages import Outgoing
from mqservice.cli.messaging import connected
from mqservice.cli.produce import REQUEST_TIMEOUT
from mqservice.cli.sender import Sender, SendLimits, Totals, Verdict
from mqservice.cli.target import Target
from tests.mqservice.cli.service_double import (
    KEY,
    Answer,
    Json,
    ServiceDouble,
    problem,
    service_double,
)


class Sending:
    """One run of a ``Sender`` and its verdicts by message number."""

    def __init__(self, totals: Totals, verdicts: dict[int, Verdict]) -> None:
        self.totals = totals
        self.verdicts = verdicts

    @property
    def outcomes(self) -> str:
        """One letter a message, in input order: stored, failed, unknown."""
        letters = []
        for _, verdict in sorted(self.verdicts.items()):
            if isinstance(verdict, Stored):
                letters.append("s")
            else:
                letters.append("u" if verdict.stored is None else "f")
        return "".join(letters)


async def chunks(*lists: Sequence[Outgoing]) -> AsyncIterator[Sequence[Outgoing]]:
    for messages in lists:
        yield messages


async def send(
    target: Target, messages: Sequence[Outgoing], limits: SendLimits | None = None
) -> Sending:
    verdicts: dict[int, Verdict] = {}

    def note(number: int, verdict: Verdict) -> None:
        assert number not in verdicts, "two verdicts for one message"
        verdicts[number] = verdict

    async with connected(target, timeout=REQUEST_TIMEOUT) as client:
        sender = Sender(client, "orders", limits=limits or SendLimits(), on_verdict=note)
        await sender.send_all(chunks(messages))
    return Sending(sender.totals, verdicts)


def texts(count: int, **fields: str) -> list[Outgoing]:
    return [
        Outgoing(body=str(number).encode(), message_group=fields.get("message_group"))
        for number in range(count)
    ]


def results(*items: Json) -> Answer:
    numbered = [{"index": index, **item} for index, item in enumerate(items)]
    return Answer(207, {"results": numbered})


STORED: Json = {"id": "0A", "queue": 0, "offset": 1}
BUSY: Json = {"code": "STORAGE_BUSY", "detail": "full", "retryable": True, "stored": False}
LOST: Json = {"code": "OUTCOME_UNKNOWN", "detail": "gone", "retryable": True, "stored": None}


def bodies(double: ServiceDouble) -> list[str]:
    return [message["body"] for message in double.stored]


async def test_messages_travel_in_batches_and_all_are_stored() -> None:
    async with service_double() as double:
        sending = await send(double.target, texts(25), SendLimits(batch_messages_max=10))
        assert sending.outcomes == "s" * 25
        assert sorted(bodies(double), key=int) == [str(number) for number in range(25)]
        sizes = [len(msgspec.json.decode(request.body)) for request in double.requests]
        assert sorted(sizes) == [5, 10, 10]
        assert {request.path for request in double.requests} == {
            "/v1/ns/-/topics/orders/messages:batch"
        }


async def test_single_message_is_no_batch() -> None:
    async with service_double() as double:
        sending = await send(double.target, texts(1))
        assert sending.outcomes == "s"
        assert [request.path for request in double.requests] == ["/v1/ns/-/topics/orders/messages"]


async def test_large_body_goes_raw_and_unchanged() -> None:
    async with service_double() as double:
        body = bytes(range(256)) * (ALONE_BYTES_MIN // 256)
        message = Outgoing(body=body, tag="t", keys=["a", "b"], message_group="g")
        sending = await send(double.target, [message])
        assert sending.outcomes == "s"
        assert double.raw_bodies == [body]
        headers = double.requests[0].headers
        assert (headers["mq-tag"], headers["mq-keys"], headers["mq-message-group"]) == (
            "t",
            "a,b",
            "g",
        )


async def test_large_body_with_what_no_header_holds_goes_as_json() -> None:
    async with service_double() as double:
        body = b"x" * ALONE_BYTES_MIN
        sending = await send(
            double.target,
            [Outgoing(body=body, tag="größe"), Outgoing(body=body, properties={"A": "b"})],
            SendLimits(batch_messages_max=1),
        )
        assert sending.outcomes == "ss"
        assert not double.raw_bodies


async def test_refusal_that_stored_nothing_is_sent_again() -> None:
    async with service_double() as double:
        double.answers.append(
            problem(503, "ENGINE_UNAVAILABLE", retryable=True, stored=False, retry_after_ms=1)
        )
        sending = await send(double.target, texts(3))
        assert sending.outcomes == "sss"
        assert sending.totals.retried == 3
        assert bodies(double) == ["0", "1", "2"]


async def test_only_the_failed_part_of_a_batch_is_sent_again() -> None:
    async with service_double() as double:
        double.answers.append(results(STORED, BUSY, STORED))
        sending = await send(double.target, texts(3))
        assert sending.outcomes == "sss"
        assert bodies(double) == ["1"]


async def test_unknown_outcome_is_reported_and_not_sent_again() -> None:
    async with service_double() as double:
        double.answers.append(problem(503, "OUTCOME_UNKNOWN", retryable=True))
        sending = await send(double.target, texts(2))
        assert sending.outcomes == "uu"
        assert len(double.requests) == 1


async def test_unknown_outcome_within_a_batch_is_not_sent_again() -> None:
    async with service_double() as double:
        double.answers.append(results(STORED, LOST))
        assert (await send(double.target, texts(2))).outcomes == "su"
        assert len(double.requests) == 1


async def test_unknown_outcome_is_sent_again_when_asked_for() -> None:
    async with service_double() as double:
        double.answers.append(problem(503, "OUTCOME_UNKNOWN", retryable=True))
        sending = await send(double.target, texts(2), SendLimits(retry_unknown=True))
        assert sending.outcomes == "ss"


async def test_attempts_end_and_the_last_refusal_is_the_verdict() -> None:
    async with service_double() as double:
        busy = problem(503, "STORAGE_BUSY", retryable=True, stored=False)
        double.answers.extend([busy] * 3)
        sending = await send(double.target, texts(2), SendLimits(attempts_max=3))
        assert sending.outcomes == "ff"
        assert len(double.requests) == 3


async def test_one_bad_message_does_not_cost_the_others() -> None:
    async with service_double() as double:
        bad = problem(400, "ILLEGAL_TAG", errors=[{"pointer": "/2/tag", "code": "ILLEGAL_TAG"}])
        double.refused = lambda message: bad if message["body"] == "2" else None
        sending = await send(double.target, texts(6))
        assert sending.outcomes == "ssfsss"
        assert sorted(bodies(double)) == ["0", "1", "3", "4", "5"]


@pytest.mark.parametrize(
    ("status", "code"), [(401, "UNAUTHENTICATED"), (403, "FORBIDDEN"), (404, "TOPIC_NOT_FOUND")]
)
async def test_refusal_of_the_caller_ends_everything_at_once(status: int, code: str) -> None:
    async with service_double() as double:
        double.answers.append(problem(status, code))
        with pytest.raises(RequestRejected, match=code):
            await send(double.target, texts(30), SendLimits(batch_messages_max=10))
        assert len(double.requests) <= SendLimits().requests_in_flight_max


async def test_message_group_is_sent_one_batch_after_the_other() -> None:
    async with service_double() as double:
        sending = await send(
            double.target, texts(40, message_group="g"), SendLimits(batch_messages_max=3)
        )
        assert sending.outcomes == "s" * 40
        assert bodies(double) == [str(number) for number in range(40)]


async def test_message_whose_successor_in_its_group_is_stored_is_not_sent_again() -> None:
    async with service_double() as double:
        double.answers.append(results(STORED, BUSY, STORED, BUSY))
        sending = await send(double.target, texts(4, message_group="g"))
        assert sending.outcomes == "sfss"
        assert bodies(double) == ["3"]


async def test_nobody_listening_is_said_before_anything_is_counted() -> None:
    async with service_double() as double:
        target = double.target
    with pytest.raises(Unreachable, match="mqservice up"):
        await send(target, texts(2))


async def test_server_fault_without_a_promise_leaves_the_outcome_unknown() -> None:
    async with service_double() as double:
        double.fails = True
        assert (await send(double.target, texts(2))).outcomes == "uu"


async def test_connection_that_ends_before_the_answer_leaves_the_outcome_unknown() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        sending = await send(Target(base_url=f"http://127.0.0.1:{port}", key=KEY), texts(2))
        assert sending.outcomes == "uu"
        verdict = sending.verdicts[1]
        assert isinstance(verdict, MQError)
        code, detail = explain(verdict)
        assert code == "NO_ANSWER"
        assert "outcome is unknown" in detail


async def test_wrong_key_is_refused_in_one_line() -> None:
    async with service_double() as double:
        target = Target(base_url=double.target.base_url, key=KEY + "x")
        with pytest.raises(RequestRejected) as refused:
            await send(target, texts(1))
        assert str(refused.value) == (
            "UNAUTHENTICATED (HTTP 401): send a valid API key; save another key with "
            "`mqservice login`, or give --api-key [request R1]"
        )


async def test_messages_before_a_bad_line_get_their_verdicts() -> None:
    async def source() -> AsyncIterator[Sequence[Outgoing]]:
        yield texts(2)
        raise ValueError("line 3")

    async with (
        service_double() as double,
        connected(double.target, timeout=REQUEST_TIMEOUT) as client,
    ):
        verdicts: list[Verdict] = []
        sender = Sender(
            client,
            "orders",
            limits=SendLimits(),
            on_verdict=lambda number, verdict: verdicts.append(verdict),
        )
        with pytest.raises(ValueError, match="line 3"):
            await sender.send_all(source())
        assert len(verdicts) == 2


async def test_message_that_makes_no_sense_costs_only_itself_and_keeps_its_number() -> None:
    messages = texts(5)
    messages[0] = Outgoing(body=b"")
    messages[2] = Outgoing(body=b"2", delay="soon")
    messages[3] = Outgoing(body=b"3", deliver_at="tomorrow")
    async with service_double() as double:
        sending = await send(double.target, messages)
        assert sending.outcomes == "fsffs"
        assert bodies(double) == ["1", "4"]
        assert isinstance(sending.verdicts[3], MQError)
        assert explain(sending.verdicts[3])[0] == "BAD_REQUEST"
