"""The real process against bad input: garbage, floods, signals, wrong settings, damaged files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from storage_engine.client import (
    AsyncStoreClient,
    PullRequest,
    PutResult,
    StoreUnavailable,
    encode_record,
)
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    decode_put_reply,
    encode_frame,
    encode_struct,
)
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.engines import (
    RECONNECT,
    Engine,
    EngineProgram,
    engine_with_topic,
    program_with_topic,
    pull_all,
)


def raw(engine: Engine) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(engine.socket)  # waits for its turn, which one with a timeout does not
    connection.settimeout(WAIT_S)
    return connection


def read_to_end(connection: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(1_000),
        b"\xff" * 64,
        (1 << 31).to_bytes(4) + encode_frame(16, 1, b"")[4:],
        encode_frame(2, 1, b"\x80")[:-1] + b"\x81",
        encode_frame(2, 1, b"\x80")[:4] + b"\x02" + encode_frame(2, 1, b"\x80")[5:],
    ],
)
def test_garbage_ends_its_own_connection_with_a_reason(content: bytes) -> None:
    with engine_with_topic() as engine, engine.client() as other:
        other.ping()
        with raw(engine) as connection:
            connection.sendall(content)
            answer = read_to_end(connection)
        assert int.from_bytes(answer[6:8]) == 3  # BadFrame
        other.ping()
        assert other.stats().connection_count == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"x",
        bytes(200),
        encode_record(message(b"a"))[:-1],
        encode_record(message(b"a")) + b"x",
        encode_record(message(b"a", tag="t"))[:-20] + b"__CRC32#\x010000000000\x03",
        encode_record(message(b"a"))[:-20] + b"x" * 20,
        encode_record(message(b"a", tag="AB"))[:-20].replace(b"\x02", b"\x03") + b"_" * 20,
    ],
)
def test_a_put_that_is_no_record_is_refused_and_the_connection_lives(payload: bytes) -> None:
    with engine_with_topic() as engine:
        with raw(engine) as connection:
            connection.sendall(encode_frame(16, 5, payload) + encode_frame(2, 6, b"\x80"))
            decoder = FrameDecoder(1 << 20)
            replies: dict[int, int] = {}
            while replies.keys() != {5, 6}:
                part = connection.recv(65_536)
                assert part, "the storage engine closed the connection"
                replies |= {frame.request_id: frame.status for frame in decoder.feed(part)}
        with engine.client() as client:
            assert client.stats().append_offset == 0
            client.put([encode_record(message(b"good"))])
        engine.kill()
        engine.start()
        with engine.client() as client:
            assert pull_all(client, 0) == [b"good"]


def test_unknown_operations_and_bad_requests_are_answered() -> None:
    with Engine() as engine, raw(engine) as connection:
        for op in (0, 4, 99, 255):
            connection.sendall(encode_frame(op, op, b""))
            assert int.from_bytes(connection.recv(65_536)[6:8]) == 4
        connection.sendall(encode_frame(19, 1, b"\xc1"))
        assert int.from_bytes(connection.recv(65_536)[6:8]) == 4


def test_hundreds_of_connections_come_and_go() -> None:
    with engine_with_topic() as engine, engine.client() as client:
        client.ping()
        descriptors = len(os.listdir(f"/proc/{engine.pid}/fd"))
        for round_ in range(3):
            opened = [raw(engine) for _ in range(200)]
            for index, connection in enumerate(opened):
                if index % 2:
                    connection.send(encode_frame(2, 1, b"\x80")[: index % 17])
                connection.close()
            client.ping()
            assert round_ >= 0
        while client.stats().connection_count > 1:
            client.ping()
        assert len(os.listdir(f"/proc/{engine.pid}/fd")) <= descriptors + 2


def test_a_client_that_never_reads_does_not_stop_the_others() -> None:
    with (
        engine_with_topic(MQ_ENGINE_REPLY_BUFFER_BYTES_MAX="65536") as engine,
        engine.client() as client,
    ):
        client.put([encode_record(message(bytes(1_000))) for _ in range(50)])
        with raw(engine) as deaf:
            request = encode_struct(
                PullRequest(
                    topic="t", queue_id=0, queue_offset=0, messages_max=50, bytes_max=1 << 20
                )
            )
            deaf.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for number in range(20_000):
                    deaf.sendall(encode_frame(17, number + 1, request))
            client.ping()
            rss = Path(f"/proc/{engine.pid}/statm").read_text().split()[1]
            assert int(rss) * 4_096 < 300 << 20


def test_sigterm_ends_with_0_and_removes_the_abort_file() -> None:
    with program_with_topic() as engine, engine.client() as client:
        client.put([encode_record(message(b"a"))])
        assert (engine.store_dir / "abort").exists()
        assert engine.stop() == 0
        assert not (engine.store_dir / "abort").exists()
        with pytest.raises(StoreUnavailable):
            client.ping()
        engine.start()
        assert pull_all(client, 0) == [b"a"]


def test_sigterm_answers_the_puts_under_way() -> None:
    async def scenario(engine: Engine) -> list[list[PutResult]]:
        client = AsyncStoreClient(engine.socket, client_name="test", config=RECONNECT)
        await client.wait_connected(10_000)
        puts = [client.put([encode_record(message(b"%d" % i))]) for i in range(500)]
        await puts[0]
        assert await asyncio.to_thread(engine.stop) == 0
        results = [r for r in await asyncio.gather(*puts, return_exceptions=True)
                   if not isinstance(r, BaseException)]  # fmt: skip
        await client.aclose()
        return results

    with program_with_topic() as engine:
        results = asyncio.run(scenario(engine))
        engine.start()
        with engine.client() as client:
            bodies = pull_all(client, 0)
        for (result,) in results:
            assert bodies[result.queue_offset]


def test_a_directory_in_use_is_refused_with_3_and_one_line() -> None:
    with program_with_topic() as engine:
        code, lines = engine.run_to_end(MQ_ENGINE_SOCKET=engine.socket + "2")
        assert code == 3
        assert lines == [
            (
                f"storage_engine: store directory {engine.store_dir} is in use by process "
                f"{engine.pid}, another engine; stop that engine first. Nothing was "
                "changed"
            )
        ]
        with engine.client() as client:
            client.ping()


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"MQ_ENGINE_SEGMENT_BYTES": "many"}, "int"),
        ({"MQ_ENGINE_SEGMENT_BYTES": "5000"}, "segment_bytes"),
        ({"MQ_ENGINE_NO_SUCH_LIMIT": "1"}, "MQ_ENGINE_NO_SUCH_LIMIT"),
        ({"MQ_ENGINE_STORE_DIR": ""}, "STORE_DIR"),
        ({"MQ_ENGINE_SOCKET": ""}, "MQ_ENGINE_SOCKET"),
        ({"MQ_ENGINE_SOCKET": "/tmp/" + "x" * 120}, "SOCKET"),
        ({"MQ_ENGINE_CONSUME_QUEUE_ALLOCATE_BYTES": "0"}, "consume_queue_allocate_bytes"),
        ({"MQ_ENGINE_CONNECTION_COUNT_MAX": "-1"}, "connection_count_max"),
    ],
)
def test_a_bad_configuration_is_refused_with_2_and_one_line(
    environment: dict[str, str], word: str
) -> None:
    with contextlib.closing(_Unstarted()) as holder:
        code, lines = holder.engine.run_to_end(**environment)
        assert code == 2
        assert len(lines) == 1
        assert word.lower() in lines[0].lower()


class _Unstarted:
    """An engine's place without an engine."""

    def __init__(self) -> None:
        self.engine = EngineProgram()

    def close(self) -> None:
        self.engine.__exit__(None, None, None)


def test_a_damaged_store_is_refused_with_4_and_left_as_it_is() -> None:
    with program_with_topic() as engine:
        assert engine.stop() == 0
        path = engine.store_dir / "config" / "topics.json"
        path.write_bytes(b"{")
        code, lines = engine.run_to_end()
        assert code == 4
        assert "topics.json" in lines[-1]
        assert path.read_bytes() == b"{"


def test_the_engine_needs_nothing_of_the_web() -> None:
    script = (
        "import sys, storage_engine.__main__\n"
        "print([m for m in ('django', 'psycopg', 'redis', 'celery') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "[]"


def test_frames_that_arrive_together_are_judged_one_by_one() -> None:
    good = [encode_record(message(b"%d" % i)) for i in range(4)]
    frames = [
        encode_frame(16, 1, good[0]),
        encode_frame(16, 2, b"no record"),
        encode_frame(16, 3, good[1]),
        encode_frame(16, 4, encode_record(message(b"x", topic="absent"))),
        encode_frame(16, 5, encode_record(message(bytes(60_000)))),
        encode_frame(16, 6, b""),
        encode_frame(16, 7, good[2] + encode_record(message(b"x", queue_id=9))),
        encode_frame(99, 8, b""),
        encode_frame(16, 9, good[3]),
    ]
    with engine_with_topic(MQ_ENGINE_BODY_BYTES_MAX="32768") as engine:
        with raw(engine) as connection:
            connection.sendall(b"".join(frames))
            decoder = FrameDecoder(1 << 20)
            replies: dict[int, Frame] = {}
            while len(replies) < len(frames):
                part = connection.recv(65_536)
                assert part, "the storage engine closed the connection"
                replies |= {frame.request_id: frame for frame in decoder.feed(part)}
        assert [replies[number].status for number in range(1, 10)] == [0, 4, 0, 0, 0, 4, 0, 4, 0]
        offsets = {
            number: [
                -result.error.code if result.error else result.queue_offset
                for result in decode_put_reply(replies[number].payload, 2 if number == 7 else 1)
            ]
            for number in (1, 3, 4, 5, 7, 9)
        }
        assert offsets == {1: [0], 3: [1], 4: [-5], 5: [-8], 7: [2, -7], 9: [3]}
        with engine.client() as client:
            assert pull_all(client, 0) == [b"0", b"1", b"2", b"3"]
