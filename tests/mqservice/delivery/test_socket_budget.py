"""What one session may send: bounded frames, work in turns, and 1008 for what never has effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import msgspec
import pytest
from websockets.exceptions import InvalidStatus

from mqservice.lib.clock import SystemClock
from mqservice.protocol.limits import FRAME_COMMANDS_MAX, LIST_COUNT_HARD_MAX
from mqservice.quotas.limits import DEFAULTS
from mqservice.web.socket_budget import DEBT_S_MAX, BudgetLimits
from tests.mqservice.delivery.peers import BOTH, JSON, Peer, closed, subscribe
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

NO_OPS = 20
TURN_COMMANDS = 4
# Closed at the first excess. A turn's time is so short that it is over after any work.
STRICT = BudgetLimits(
    turn_count_max=TURN_COMMANDS, turn_us_max=1, no_ops_per_second_max=NO_OPS, excess_s_max=1
)
REASON = (
    f"over {NO_OPS} pings, pongs, small fragments and commands without effect a second"
    " for 1 s in a row"
)


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    with serving(StoreDouble(SystemClock()), socket_limits=STRICT) as server:
        server.topic("orders")
        server.topic("empty")
        server.group("billing")
        yield server


@pytest.fixture(params=BOTH)
def sender(strict: Server, request: pytest.FixtureRequest) -> Iterator[Peer]:
    with Peer(strict, request.param, resume_ttl_ms=60_000) as connected:
        yield connected


def together(peer: Peer, command: str | bytes, count: int) -> str | bytes:
    """One frame of so many commands."""
    if isinstance(command, str):
        return "\n".join([command] * count)
    return msgspec.msgpack.encode([msgspec.Raw(command)] * count)


# A frame ----------------------------------------------------------------------------------------


def test_a_frame_carries_as_many_commands_as_the_welcome_says(peer: Peer) -> None:
    most = peer.welcome["limits"]["max_commands"]
    peer.socket.send(together(peer, peer.encode("ping"), most))
    assert [peer.recv()["op"] for _ in range(most)] == ["pong"] * most


def test_a_frame_of_more_commands_is_closed_before_any_is_done(peer: Peer) -> None:
    peer.socket.send(together(peer, peer.encode("ping"), FRAME_COMMANDS_MAX + 1))
    assert closed(peer) == (4413, f"a frame carries at most {FRAME_COMMANDS_MAX} commands")


@pytest.mark.parametrize("content", [b"\xdc\x03\xe9", b"\xdd\xff\xff\xff\xff"])
def test_the_head_of_an_array_says_enough_to_refuse_it(server: Server, content: bytes) -> None:
    with Peer(server, "mq.v1.msgpack") as peer:
        peer.socket.send(content + b"\x91\x11")
        assert closed(peer)[0] == 4413


def test_blank_lines_count_as_commands(server: Server) -> None:
    with Peer(server, JSON) as peer:
        peer.socket.send("\n" * (FRAME_COMMANDS_MAX + 1))
        assert closed(peer)[0] == 4413


@pytest.mark.parametrize("op", ["pub", "ack"])
def test_a_list_that_is_far_too_long_is_refused(peer: Peer, topic: str, op: str) -> None:
    count = 20 * LIST_COUNT_HARD_MAX
    if op == "pub":
        answer = peer.ask("pub", topic=topic, m=[{"body": ""}] * count)
    else:
        subscribe(peer, topic)
        answer = peer.ask("ack", sid=1, t=[1] * count)
    assert (answer["op"], answer["code"]) == ("err", "BAD_REQUEST")
    assert str(LIST_COUNT_HARD_MAX) in answer["msg"]


def test_long_bodies_with_many_commas_are_no_long_lists(
    server: Server, topic: str, api: httpx.Client
) -> None:
    server.topic(topic, body_bytes_max=1_000_000)
    body = "," * 300_000
    with Peer(server, JSON) as peer:
        answer = peer.ask("pub", topic=topic, m=[{"body": body}, {"body_json": [1] * 30_000}])
        assert [each["status"] for each in answer["r"]["results"]] == [201, 201]


# A turn -----------------------------------------------------------------------------------------


def test_commands_of_a_frame_are_spread_over_turns(strict: Server) -> None:
    with Peer(strict, JSON) as peer:
        frame = together(peer, '{"op":"credit","sid":1,"id":7}', NO_OPS // 2)
        before = strict.turn_number()
        peer.socket.send(frame)
        for _ in range(NO_OPS // 2):
            peer.answer(7)
        assert strict.turn_number() - before >= NO_OPS // 2 // TURN_COMMANDS


def test_a_large_publish_is_spread_over_turns_and_stored_whole(strict: Server) -> None:
    with Peer(strict, JSON) as peer:
        before = strict.turn_number()
        answer = peer.ask("pub", topic="orders", m=[{"body": "x"}] * 1_000)
        assert [each["status"] for each in answer["r"]["results"]] == [201] * 1_000
        # Checked and encoded in steps of 32 messages, of which two may fit into a turn.
        assert strict.turn_number() - before >= 1_000 // 32


def test_publishes_are_stored_in_their_order_although_they_give_way(strict: Server) -> None:
    with Peer(strict, JSON) as peer:
        for number in range(10):
            bodies = [{"body": f"{number}", "queue": 0}] * (100 if number % 2 else 1)
            peer.send("pub", id=100 + number, topic="orders", m=bodies)
        offsets = []
        for number in range(10):
            results = peer.answer(100 + number)["r"]["results"]
            offsets += [each["offset"] for each in results]
    assert offsets == sorted(offsets)


# A second ---------------------------------------------------------------------------------------

WITHOUT_EFFECT: dict[str, Callable[[Peer], str | bytes]] = {
    "ping": lambda peer: peer.encode("ping"),
    "pong": lambda peer: peer.encode("pong"),
    "ack": lambda peer: peer.encode("ack", sid=1, t=[99]),
    "nack": lambda peer: peer.encode("nack", sid=1, t=[[99]]),
    "dlq": lambda peer: peer.encode("dlq", sid=1, t=[[99]]),
    "extend": lambda peer: peer.encode("extend", sid=1, t=[99], ms=60_000),
    "credit above the cap": lambda peer: peer.encode("credit", sid=1, msgs=1, bytes=1),
    "a sid that is not there": lambda peer: peer.encode("ack", sid=7, t=[1]),
    "hello again": lambda peer: peer.encode("hello"),
    "an unknown op": lambda peer: '{"op":"x"}' if peer.is_json else b"\x91\x63",
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
@pytest.mark.parametrize("is_one_frame", [True, False])
def test_too_many_commands_without_effect_are_closed_with_1008(
    strict: Server, sender: Peer, name: str, is_one_frame: bool
) -> None:
    subscribe(sender, "empty", credit={"msgs": 1_000, "bytes": 8 * 1024 * 1024})
    command = WITHOUT_EFFECT[name](sender)
    if is_one_frame:
        sender.socket.send(together(sender, command, NO_OPS + 1))
    else:
        for _ in range(NO_OPS + 1):
            sender.socket.send(command)
    assert closed(sender) == (1008, REASON)


def test_what_has_an_effect_is_never_too_much(strict: Server, sender: Peer) -> None:
    subscribe(sender, "empty", credit={"msgs": 1, "bytes": 1})
    for number in range(4 * NO_OPS):
        sender.send("credit", sid=1, msgs=1, bytes=1, id=1_000 + number)
    for number in range(4 * NO_OPS):
        assert sender.answer(1_000 + number)["op"] == "ok"


def test_refusals_that_may_be_tried_again_are_never_too_much() -> None:
    quotas = msgspec.structs.replace(DEFAULTS, messages_in_per_second=1)
    store = StoreDouble(SystemClock())
    with serving(store, socket_limits=STRICT, quotas=quotas) as server, Peer(server) as peer:
        server.topic("orders")
        codes = [
            peer.ask("pub", topic="orders", m=[{"body": "x"}]).get("code")
            for _ in range(4 * NO_OPS)
        ]
        assert codes.count("RATE_LIMITED") >= 3 * NO_OPS


def test_the_session_of_one_that_is_closed_for_it_is_not_kept(strict: Server) -> None:
    key = strict.key()
    with Peer(strict, key=key, resume_ttl_ms=60_000) as peer:
        subscribe(peer, "empty")
        resume = {"session": peer.welcome["session"], "token": peer.welcome["resume_token"]}
        for _ in range(NO_OPS + 1):
            peer.socket.ping()
        assert closed(peer) == (1008, REASON)
    with Peer(strict, key=key, resume=resume) as again:
        assert again.welcome["resumed"] is False


# A debt -----------------------------------------------------------------------------------------


@pytest.fixture
def costly() -> Iterator[Server]:
    """Whose refused commands are too much at once, whatever they cost."""
    limits = BudgetLimits(no_op_us_max=1)
    with serving(StoreDouble(SystemClock()), socket_limits=limits) as server:
        server.topic("orders")
        yield server


def refused(server: Server, key: str) -> InvalidStatus:
    """How a new socket is refused."""
    with pytest.raises(InvalidStatus) as caught, Peer(server, key=key):
        pass
    return caught.value


@pytest.mark.parametrize("how", ["a refused command", "too many commands", "no frame at all"])
def test_whoever_owes_gets_no_new_socket_until_it_is_paid(costly: Server, how: str) -> None:
    key, neighbour = costly.key(), costly.key()
    with Peer(costly, JSON, key=key) as peer:
        if how == "a refused command":
            peer.send("ack", id=7, sid=9, t=[1] * 1_000)
            assert peer.answer(7)["op"] == "err"
        else:
            peer.socket.send("{" if how == "no frame at all" else "\n" * (FRAME_COMMANDS_MAX + 1))
            assert closed(peer)[0] in (4400, 4413)
    response = refused(costly, key).response
    problem = msgspec.json.decode(response.body or b"")
    assert (response.status_code, problem["code"]) == (429, "RATE_LIMITED")
    assert 1 <= int(response.headers["retry-after"]) <= DEBT_S_MAX
    assert "connect again in" in problem["detail"]
    with Peer(costly, JSON, key=neighbour) as peer:
        assert peer.welcome["op"] == "welcome"


def test_one_broken_frame_does_not_keep_a_client_away(server: Server) -> None:
    key = server.key()
    with Peer(server, JSON, key=key) as peer:
        peer.socket.send("{")
        assert closed(peer)[0] == 4400
    with Peer(server, JSON, key=key) as peer:
        assert peer.welcome["op"] == "welcome"
