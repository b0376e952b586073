"""An engine over TCP and TLS lets in who knows the secret, and tells everybody else why not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage_engine.client import (
    Address,
    AsyncStoreClient,
    ClientConfig,
    ConfigInvalid,
    Credentials,
    PullRequest,
    StoreClient,
    StoreError,
    StoreUnavailable,
    TopicConfig,
    encode_record,
)
from storage_engine.errors import Unauthenticated
from storage_engine.tools.verify.verification import Verification
from storage_engine.wire.frames import FrameDecoder, decode_error, encode_frame, encode_struct
from storage_engine.wire.operations import Op
from storage_engine.wire.probe import why_silent
from storage_engine.wire.proof import ClientProof, EngineProof
from storage_engine.wire.protocol import ChallengeReply, ChallengeRequest, Empty, HelloRequest
from tests.certificates import make_certificate
from tests.ports import find_steady_port
from tests.storage_engine.doubles import message
from tests.storage_engine.engines import RECONNECT, Engine

SECRET = "s" * 40
KNOWN = Credentials(secret=SECRET)
WAIT_S = 30


@contextmanager
def network_engine(scheme: str = "tcp", **settings: str) -> Iterator[tuple[Engine, str]]:
    """An engine of shard ``s2`` and its address."""
    address = f"{scheme}://127.0.0.1:{find_steady_port()}"
    limits = {
        "MQ_ENGINE_LISTEN": address,
        "MQ_ENGINE_SECRET": SECRET,
        "MQ_ENGINE_SHARD": "s2",
        **settings,
    }
    with Engine(**limits) as engine:
        yield engine, address


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings with a certificate of 127.0.0.1 that rests on nothing but itself."""
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    return {"MQ_ENGINE_TLS_CERT_FILE": str(certificate), "MQ_ENGINE_TLS_KEY_FILE": str(key)}


# A client that tries again may be closed before it has heard anything.
LEFT = "it went away before it had proved itself"


def refusals(engine: Engine) -> list[str]:
    """Why the engine refused clients, from its log."""
    lines = [json.loads(line) for line in engine.log.read_text().splitlines() if line[:1] == "{"]
    return [line["reason"] for line in lines if line.get("action") == "client_refused"]


def refused(address: str, shard: str = "s2", credentials: Credentials = KNOWN) -> str:
    """What a client that is not let in says; both clients say the same."""
    with (
        StoreClient(address, client_name="t", shard=shard, credentials=credentials) as client,
        pytest.raises(StoreUnavailable) as raised,
    ):
        client.ping()
    return str(raised.value)


async def async_refused(address: str, shard: str = "s2", credentials: Credentials = KNOWN) -> str:
    client = AsyncStoreClient(
        address, client_name="t", shard=shard, credentials=credentials, config=RECONNECT
    )
    try:
        client.start()
        async with asyncio.timeout(WAIT_S):
            while True:
                with pytest.raises(StoreUnavailable) as raised:
                    await client.ping()
                if "not started" not in str(raised.value):
                    return str(raised.value)
                await asyncio.sleep(0.01)
    finally:
        await client.aclose()


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
async def test_both_clients_work_over_the_network(scheme: str, certificate: dict[str, str]) -> None:
    credentials = Credentials(SECRET, certificate["MQ_ENGINE_TLS_CERT_FILE"])
    large = {"MQ_ENGINE_SEGMENT_BYTES": str(8 << 20)}
    with network_engine(scheme, **large, **certificate) as (_, address):
        with StoreClient(address, client_name="t", shard="s2", credentials=credentials) as blocking:
            blocking.topic_put(TopicConfig(topic="t", queue_count=1))
            # More than any buffer of a socket holds, both ways; again on an idle connection.
            bodies = [bytes([number]) * 100_000 for number in range(30)]
            for body in bodies:
                blocking.put([encode_record(message(body))])
            pulled = blocking.pull(
                PullRequest(
                    topic="t", queue_id=0, queue_offset=0, messages_max=100, bytes_max=8 << 20
                )
            )
            assert [record.body for record in pulled[1]] == bodies
            assert blocking.hello is not None
            assert (blocking.hello.shard, blocking.hello.broker) == ("s2", "s2")
        client = AsyncStoreClient(address, client_name="t", shard="s2", credentials=credentials)
        try:
            await client.wait_connected(WAIT_S * 1_000)
            (result,) = await client.put([encode_record(message(b"x" * 1_000_000))])
            assert result.queue_offset == len(bodies)
            client.listen(lambda notice: None)
            await client.ping()
        finally:
            await client.aclose()


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
async def test_another_machine_finds_out_whether_the_engine_of_a_shard_answers(
    scheme: str, certificate: dict[str, str]
) -> None:
    with network_engine(scheme, **(certificate if scheme == "tls" else {})) as (engine, address):
        assert await why_silent(address, shard="s2", secret=SECRET) == ""
        assert "owns the shard s2" in await why_silent(address, shard="s3", secret=SECRET)
        assert "another MQ_ENGINE_SECRET" in await why_silent(address, shard="s2", secret="x" * 40)
        os.kill(engine.pid, signal.SIGSTOP)
        assert "nothing came" in await why_silent(address, shard="s2", secret=SECRET)
        os.kill(engine.pid, signal.SIGCONT)


async def pid_of(client: AsyncStoreClient, *, other_than: int = 0) -> int:
    """Of the engine that answers, once it is another one."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(StoreError):
                pid = (await client.stats()).pid
                if pid != other_than:
                    return pid
            await asyncio.sleep(0.01)


async def test_a_client_looks_elsewhere_when_it_is_told_or_the_engine_is_silent() -> None:
    soon = ClientConfig(
        sweep_interval_ms=10, ping_after_ms=50, silent_after_ms=150, give_up_after_ms=600
    )
    with network_engine() as (first, old), network_engine() as (second, new):
        address = old

        async def find() -> str:
            return address

        client = AsyncStoreClient(find, client_name="t", credentials=KNOWN, config=soon)
        try:
            client.start()
            assert await pid_of(client) == first.pid
            address = new
            client.reconnect()
            client.reconnect()
            assert await pid_of(client, other_than=first.pid) == second.pid
            os.kill(second.pid, signal.SIGSTOP)
            address = old
            assert await pid_of(client, other_than=second.pid) == first.pid
        finally:
            os.kill(second.pid, signal.SIGCONT)
            await client.aclose()


async def test_the_address_is_asked_for_at_each_connection() -> None:
    with network_engine() as (engine, address):
        asked = []

        async def find() -> str:
            asked.append(1)
            return address if len(asked) > 1 else "tcp://127.0.0.1:1"

        client = AsyncStoreClient(find, client_name="t", credentials=KNOWN, config=RECONNECT)
        try:
            await client.wait_connected(WAIT_S * 1_000)
            assert len(asked) == 2
        finally:
            await client.aclose()
        with StoreClient(lambda: address, client_name="t", credentials=KNOWN) as blocking:
            blocking.ping()
        assert refusals(engine) == []


async def test_another_secret_is_refused_by_both_sides() -> None:
    other = Credentials("o" * 40)
    with network_engine() as (engine, address):
        for said in (
            refused(address, credentials=other),
            await async_refused(address, credentials=other),
        ):
            assert "the engine has another MQ_ENGINE_SECRET" in said
        # Of both; a client that tries again may go before it has heard anything: no hint then.
        async with asyncio.timeout(WAIT_S):
            while sum("another MQ_ENGINE_SECRET?" in each for each in refusals(engine)) < 2:
                await asyncio.sleep(0.01)


async def test_a_client_without_a_secret_says_what_to_set() -> None:
    with network_engine() as (_, address):
        assert "set MQ_ENGINE_SECRET" in refused(address, credentials=Credentials())
        assert "set MQ_ENGINE_SECRET" in await async_refused(address, credentials=Credentials())


async def test_an_engine_of_another_shard_is_refused() -> None:
    with network_engine() as (engine, address):
        for said in refused(address, "s3"), await async_refused(address, "s3"):
            assert "owns the shard s2, not s3" in said
        assert set(refusals(engine)) - {LEFT} == {"this engine owns the shard s2, not s3"}
        assert "owns the shard s2, not s3" in refused(engine.socket, "s3")


async def test_a_plain_client_of_a_tls_port_and_the_reverse_hear_what_is_wrong(
    certificate: dict[str, str],
) -> None:
    with network_engine("tls", **certificate) as (engine, address):
        plain = address.replace("tls:", "tcp:")
        for said in refused(plain), await async_refused(plain):
            assert "is tls:// meant?" in said
        found = set(refusals(engine)) - {LEFT}
        assert found
        assert all("no TLS" in reason for reason in found)
    with network_engine() as (engine, address):
        tls = address.replace("tcp:", "tls:")
        for said in refused(tls), await async_refused(tls):
            assert "is tcp:// meant?" in said
        assert any("begins with TLS" in reason for reason in refusals(engine))


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    certificate: dict[str, str],
) -> None:
    with network_engine("tls", **certificate) as (engine, address):
        for said in refused(address), await async_refused(address):
            assert "certificate was not accepted" in said
        named = address.replace("127.0.0.1", "localhost")
        trusting = Credentials(SECRET, certificate["MQ_ENGINE_TLS_CERT_FILE"])
        assert "certificate was not accepted" in refused(named, credentials=trusting)
        assert refusals(engine)


def exchange(address: str, *frames: bytes) -> list[tuple[int, str]]:
    """Frames as they are; (operation, error) of each reply until the engine hangs up."""
    at = Address.parse(address)
    decoder = FrameDecoder(1 << 20)
    with socket.create_connection((at.host, at.port), WAIT_S) as connection:
        connection.sendall(b"".join(frames))
        got = []
        while chunk := connection.recv(1 << 16):
            got += decoder.feed(chunk)
        return [(f.op, str(decode_error(f.status, f.payload)) if f.status else "") for f in got]


def test_nothing_is_served_without_proof() -> None:
    with network_engine() as (_, address):
        hello = encode_frame(Op.HELLO, 1, encode_struct(HelloRequest(client="t")))
        for asked in encode_frame(Op.STATS, 1, encode_struct(Empty())), hello:
            ((_, said),) = exchange(address, asked)
            assert "must prove itself" in said
        challenge = ChallengeRequest(shard="s2", nonce=b"n" * 32)
        first = encode_frame(Op.CHALLENGE, 1, encode_struct(challenge))
        assert exchange(address, first, hello)[-1][1].startswith("the client has another")
        assert "must prove itself" in exchange(address, first, first)[-1][1]
        short = ChallengeRequest(shard="s2", nonce=b"n")
        ((_, said),) = exchange(address, encode_frame(Op.CHALLENGE, 1, encode_struct(short)))
        assert "nonce of 32 bytes" in said
        ((_, said),) = exchange(address, (1 << 20).to_bytes(4) + bytes([1]) + bytes(11))
        assert "at most 4096" in said


def test_another_version_of_the_protocol_is_named() -> None:
    with network_engine() as (engine, address):
        frame = bytearray(encode_frame(Op.HELLO, 1, encode_struct(HelloRequest(client="t"))))
        frame[4] = 2
        ((_, said),) = exchange(address, bytes(frame))
        assert "version 2 of the protocol and this one version 1" in said
        assert refusals(engine) == [said]


def test_a_proof_is_good_once_for_one_shard_and_one_side() -> None:
    client = ClientProof(KNOWN, "s2")
    engine = EngineProof(SECRET, client.challenge)
    proof = client.answer(engine.reply)
    assert engine.accepts(proof)
    assert not engine.accepts(engine.reply.proof)  # sent back to where it came from
    assert not EngineProof(SECRET, client.challenge).accepts(proof)  # replayed
    moved = ChallengeRequest(shard="s3", nonce=client.challenge.nonce)
    with pytest.raises(Unauthenticated):
        client.answer(EngineProof(SECRET, moved).reply)
    with pytest.raises(Unauthenticated):
        client.answer(ChallengeReply(nonce=engine.reply.nonce, proof=proof))


def test_an_engine_that_cannot_let_anybody_in_does_not_start(
    certificate: dict[str, str],
) -> None:
    port = find_steady_port()
    listen = f"tls://127.0.0.1:{port}"
    good = {"MQ_ENGINE_LISTEN": listen, "MQ_ENGINE_SECRET": SECRET, **certificate}
    with Engine() as engine:
        for change, words in (
            ({"MQ_ENGINE_LISTEN": "udp://127.0.0.1:1"}, "must begin with tcp:// or tls://"),
            ({"MQ_ENGINE_LISTEN": "tcp://127.0.0.1"}, "name a host and a port"),
            ({"MQ_ENGINE_LISTEN": "/a/path"}, "must begin with tcp:// or tls://"),
            ({"MQ_ENGINE_SECRET": "short"}, "at least 32 characters"),
            ({"MQ_ENGINE_SECRET_FILE": "/nowhere"}, "cannot read MQ_ENGINE_SECRET_FILE"),
            ({"MQ_ENGINE_TLS_KEY_FILE": ""}, "MQ_ENGINE_TLS_KEY_FILE"),
            ({"MQ_ENGINE_TLS_KEY_FILE": "/nowhere"}, "cannot use"),
            ({"MQ_ENGINE_LISTEN": "tls://192.0.2.1:1"}, "cannot listen on tls://192.0.2.1:1"),
        ):
            other = {"MQ_ENGINE_STORE_DIR": str(engine.directory / "other")}
            code, said = engine.run_to_end(**{**good, **other, **change})
            assert (code, words in said[-1]) == (2, True), said


def test_a_store_of_another_shard_is_not_served() -> None:
    with network_engine() as (engine, _):
        engine.stop()
        for shard in ("s3", "main"):
            code, said = engine.run_to_end(MQ_ENGINE_SHARD=shard)
            assert (code, "is the store of the shard s2" in said[-1]) == (2, True), said
        check = Verification(engine.store_dir, index_slots=64)
        for _ in check.run():
            pass
        assert not check.report.findings
    with Engine() as engine:
        engine.stop()
        code, said = engine.run_to_end(MQ_ENGINE_SHARD="s2")
        assert (code, "is the store of the shard main" in said[-1]) == (2, True), said
        assert not (engine.store_dir / "shard").exists()


@pytest.mark.parametrize("text", ["tcp://h", "tcp://:1", "tcp://h:1/x", "ssl://h:1", "tcp://h:x"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="is not the address of an engine"):
        Address.parse(text)


def test_a_ca_file_without_certificates_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot read the CA certificates"):
        Credentials(ca_file=str(tmp_path / "none")).tls()
    assert isinstance(Credentials().tls(), ssl.SSLContext)
