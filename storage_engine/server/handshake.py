"""Lets clients in that come over a network: TLS if the address says so, then proof, then service.

    connection ── TLS ──▶ [Handshake] ─ CHALLENGE, HELLO with proof ─▶ let in as the server's own
                               └─ anything else, or nothing in time ─▶ an error frame, and the end

Nothing but these two frames is read before, and they are short: a stranger costs a few KiB.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from storage_engine.config import StoreConfig
from storage_engine.errors import (
    BadFrame,
    ConfigInvalid,
    StoreBusy,
    StoreError,
    Unauthenticated,
    WrongShard,
)
from storage_engine.wire.address import SECRET_CHARS_MIN, Address, Scheme, keep_alive
from storage_engine.wire.frames import (
    Frame,
    FrameDecoder,
    encode_error,
    encode_frame,
    encode_struct,
)
from storage_engine.wire.operations import Op
from storage_engine.wire.proof import NONCE_BYTES, EngineProof
from storage_engine.wire.protocol import HelloRequest

log = logging.getLogger(__name__)

_FRAME_BYTES_MAX: Final = 4 * 1024
_WAIT_S: Final = 5  # for all of it
_STRANGERS_MAX: Final = 256  # at a time
_TLS_RECORD: Final = 0x16  # the first byte of a client that begins with TLS


class Connection(Protocol):
    """What serves a client that was let in."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is its protocol from now on."""

    def greet(self, request_id: int, request: HelloRequest) -> None:
        """Answers its HELLO."""


class NetworkListener:
    """Listens on a TCP port. ``let_in`` makes the connection of a client that has proved itself."""

    def __init__(self, config: StoreConfig, let_in: Callable[[], Connection]) -> None:
        """Raises ConfigInvalid: see ``check_network``."""
        check_network(config)
        self.config = config
        self.let_in = let_in
        self.strangers: set[Handshake] = set()
        self._address = Address.parse(config.listen)
        self._tls = _server_tls(config) if self._address.scheme is Scheme.TLS else None
        self._listener: asyncio.Server | None = None

    async def start(self, backlog: int) -> None:
        """Raises ConfigInvalid when the address cannot be listened on."""
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                lambda: Handshake(self),
                self._address.host,
                self._address.port,
                ssl=self._tls,
                ssl_handshake_timeout=_WAIT_S if self._tls is not None else None,
                backlog=backlog,
            )
        except OSError as exc:
            raise ConfigInvalid(f"cannot listen on {self.config.listen}: {exc.strerror}") from exc

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for stranger in list(self.strangers):
            stranger.abort()


class Handshake(asyncio.BufferedProtocol):
    """See the module's docstring."""

    def __init__(self, listener: NetworkListener) -> None:
        self._listener = listener
        self._decoder = FrameDecoder(_FRAME_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._proof: EngineProof | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport.get_extra_info("socket"))
        if len(self._listener.strangers) >= _STRANGERS_MAX:
            self._refuse(0, StoreBusy("too many clients are being greeted; try again later"))
            return
        self._listener.strangers.add(self)
        self._deadline = asyncio.get_running_loop().call_later(_WAIT_S, self._time_out)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._listener.strangers and self._transport is not None:
            hint = "; does it have another MQ_ENGINE_SECRET?" if self._proof is not None else ""
            _refused(_peer(self._transport), f"it went away before it had proved itself{hint}")
        self._end()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.space()

    def buffer_updated(self, nbytes: int) -> None:
        is_tls = self._proof is None and self._decoder.space()[0] == _TLS_RECORD
        try:
            frames = self._decoder.filled(nbytes)
        except BadFrame as exc:
            hint = "; it begins with TLS, and this address is tcp://" if is_tls else ""
            self._refuse(0, BadFrame(f"{exc}{hint}"))
            return
        for frame in frames:
            try:
                self._serve(frame)
            except StoreError as exc:
                self._refuse(frame.request_id, exc, frame.op)
                return

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _serve(self, frame: Frame) -> None:
        config = self._listener.config
        if frame.op == Op.CHALLENGE and self._proof is None:
            challenge = Op.CHALLENGE.decode_request(frame.payload)
            if len(challenge.nonce) != NONCE_BYTES:
                raise Unauthenticated(f"a challenge has a nonce of {NONCE_BYTES} bytes")
            check_shard(config, challenge.shard)
            self._proof = EngineProof(config.secret, challenge)
            payload = encode_struct(self._proof.reply)
            self._write(encode_frame(Op.CHALLENGE, frame.request_id, payload))
        elif frame.op == Op.HELLO and self._proof is not None:
            hello = Op.HELLO.decode_request(frame.payload)
            if not self._proof.accepts(hello.proof):
                raise Unauthenticated("the client has another MQ_ENGINE_SECRET than this engine")
            self._let_in(frame.request_id, hello)
        else:
            raise Unauthenticated("a client over a network must prove itself before it asks")

    def _let_in(self, request_id: int, hello: HelloRequest) -> None:
        transport = self._transport
        assert transport is not None
        self._end()
        connection = self._listener.let_in()
        transport.set_protocol(cast("asyncio.BaseProtocol", connection))
        connection.connection_made(transport)
        connection.greet(request_id, hello)

    def _refuse(self, request_id: int, error: StoreError, op: int = Op.HELLO) -> None:
        assert self._transport is not None
        _refused(_peer(self._transport), str(error))
        self._write(encode_frame(op, request_id, encode_error(error), error.code))
        self._transport.close()
        self._end()

    def _time_out(self) -> None:
        self._refuse(0, Unauthenticated(f"no proof within {_WAIT_S} s"))

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)

    def _end(self) -> None:
        self._listener.strangers.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()


def check_shard(config: StoreConfig, shard: str) -> None:
    """Raises WrongShard when a client means another one."""
    if shard and shard != config.shard:
        raise WrongShard(f"this engine owns the shard {config.shard}, not {shard}")


def check_network(config: StoreConfig) -> None:
    """Whether clients can be let in at ``listen``.

    Raises ConfigInvalid.
    """
    address = Address.parse(config.listen)
    if not address.is_remote:
        raise ConfigInvalid(f"listen is {config.listen!r}, it must begin with tcp:// or tls://")
    if len(config.secret) < SECRET_CHARS_MIN:
        raise ConfigInvalid(
            f"listen is {config.listen}, which needs MQ_ENGINE_SECRET or MQ_ENGINE_SECRET_FILE "
            f"with at least {SECRET_CHARS_MIN} characters"
        )
    if address.scheme is Scheme.TLS and not (config.tls_cert_file and config.tls_key_file):
        raise ConfigInvalid(
            f"listen is {config.listen}, which needs MQ_ENGINE_TLS_CERT_FILE and "
            "MQ_ENGINE_TLS_KEY_FILE"
        )


class _LoggedTls(ssl.SSLObject):
    """Says why a client could not begin TLS, which event loops keep to themselves."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as exc:
            _refused("unknown", f"no TLS: {exc.reason or exc}")
            raise


def _server_tls(config: StoreConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _LoggedTls
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_cert_file, config.tls_key_file)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigInvalid(
            f"cannot use {config.tls_cert_file} with {config.tls_key_file}: {exc}"
        ) from exc
    return context


def _peer(transport: asyncio.BaseTransport) -> str:
    peer: Any = transport.get_extra_info("peername")  # Any: as asyncio has it
    return f"{peer[0]}:{peer[1]}" if peer else "a client that is gone"


def _refused(peer: str, reason: str) -> None:
    log.warning(
        "Refused a client that came over the network",
        extra={"action": "client_refused", "peer": peer, "reason": reason},
    )
