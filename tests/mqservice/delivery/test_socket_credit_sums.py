"""Whatever credit and frames a client takes, each message comes once, and all credit comes back."""

from __future__ import annotations

import pytest

from tests.mqservice.delivery.engine_serving import real_topic
from tests.mqservice.delivery.flowing import subscribe
from tests.mqservice.delivery.peers import JSON, Peer
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.wait_until import wait_until

pytestmark = pytest.mark.real_engine()

KIB = 1024
MSGPACK = "mq.v1.msgpack"
COUNT = 1_100


@pytest.mark.parametrize("subprotocol", [JSON, MSGPACK])
@pytest.mark.parametrize("is_acked_whole", [True, False])
@pytest.mark.parametrize(
    ("msgs", "bytes_count", "max_frame", "body_bytes"),
    [
        (1, 1, None, 10),
        (3, 8_000_000, None, 10),
        (250, 8_000_000, None, 10),
        (1_000, 8_000_000, None, 10),
        (1_000, 20_000, None, 100),
        (1_000, 8_000_000, 16 * KIB, 300),
        (1_000, 8_000_000, 64 * KIB, 700),
    ],
)
def test_each_comes_once_and_all_credit_comes_back(
    server: Server,
    engine_socket: str,
    monkeypatch: pytest.MonkeyPatch,
    subprotocol: str,
    is_acked_whole: bool,
    msgs: int,
    bytes_count: int,
    max_frame: int | None,
    body_bytes: int,
) -> None:
    topic = real_topic(server, engine_socket, queue_count=1)
    count = min(COUNT, 20 * msgs)
    with Peer(server, subprotocol, max_frame=max_frame) as peer:
        for start in range(0, count, 100):
            # Runs that are alike, broken by one that is not.
            offers = [
                {"body": f"{at:0{body_bytes}}", "queue": 0, "tag": "odd" if at % 97 == 5 else None}
                for at in range(start, min(start + 100, count))
            ]
            assert peer.ask("pub", topic=topic, m=offers)["op"] == "ok"
        sizes: list[int] = []
        recv = peer.socket.recv

        def measured(*given: object, **named: object) -> str | bytes:
            frame = recv(*given, **named)  # type: ignore[call-overload] # as given
            sizes.append(len(frame))
            return frame  # type: ignore[no-any-return] # of an overload

        monkeypatch.setattr(peer.socket, "recv", measured)
        subscribe(peer, topic, msgs, bytes_count)
        seen: list[int] = []
        held: list[int] = []
        while len(seen) < count:
            frame = peer.recv()
            if frame["op"] != "msgs":
                continue
            batch = frame["m"]
            assert len(batch) == 1 or sizes[-1] <= (max_frame or KIB * KIB)
            seen += [int(peer.body(each)) for each in batch]
            held += [each["t"] for each in batch]
            assert len(held) <= msgs
            assert len(batch) <= 250
            cut = len(held) if is_acked_whole else (len(held) + 1) // 2
            peer.send("ack", id=None, sid=1, t=held[:cut])
            held = held[cut:]
        assert seen == list(range(count))
        if held:
            assert peer.ask("ack", sid=1, t=held)["r"]["failed"] == []
        whole = {"msgs": msgs, "bytes": bytes_count}
        wait_until(lambda: peer.ask("credit", sid=1, msgs=0, bytes=0)["r"]["credit"] == whole)
