"""Where an engine answers, and what a client must know to be let in over a network.

/run/engine.sock     a unix socket: only its own user reaches it, and nothing is proved
tcp://HOST:PORT      both sides prove that they know the secret; whoever is between them reads on
tls://HOST:PORT      the same inside TLS, with the engine's certificate verified
"""

from __future__ import annotations

import enum
import socket
import ssl
from functools import lru_cache
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from storage_engine.errors import ConfigInvalid, StoreUnavailable

SECRET_CHARS_MIN: Final = 32
# A host that is gone, or a cut network, ends the connection within 15 s.
_TCP_OPTIONS: Final = {
    socket.TCP_KEEPIDLE: 5,
    socket.TCP_KEEPINTVL: 3,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 15_000,
}


class Scheme(enum.StrEnum):
    UNIX = "unix"
    TCP = "tcp"
    TLS = "tls"


class Address(NamedTuple):
    """``path`` is of a unix socket; ``host`` and ``port`` are of the others."""

    scheme: Scheme
    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ConfigInvalid."""
        if "://" not in text:
            return cls(Scheme.UNIX, path=text)
        try:
            url = urlsplit(text)
            if url.scheme not in (Scheme.TCP, Scheme.TLS):
                raise ValueError("it must begin with tcp:// or tls://, or be the path of a socket")
            if not url.hostname or not url.port:
                raise ValueError("it must name a host and a port")
            if url.username or url.path or url.query or url.fragment:
                raise ValueError("it must end with the port")
        except ValueError as exc:
            raise ConfigInvalid(f"{text!r} is not the address of an engine: {exc}") from exc
        return cls(Scheme(url.scheme), host=url.hostname, port=url.port)

    @property
    def is_remote(self) -> bool:
        """Whether strangers can reach it, so that both sides have to prove who they are."""
        return self.scheme is not Scheme.UNIX


class Credentials(msgspec.Struct, frozen=True):
    """What a client shows an engine over a network, and whom it trusts."""

    secret: str = ""
    ca_file: str = ""  # of the engines' certificates; empty: the system's

    def tls(self) -> ssl.SSLContext:
        """Raises ConfigInvalid when the file holds no certificate."""
        return _client_tls(self.ca_file)


@lru_cache(maxsize=4)
def _client_tls(ca_file: str) -> ssl.SSLContext:
    """Read once: the system's certificates take 20 ms, for which an event loop would stand still
    at each attempt to connect.
    """
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigInvalid(f"cannot read the CA certificates in {ca_file}: {exc}") from exc


def keep_alive(end: socket.socket) -> None:
    """Have the kernel notice that the other host is gone."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _TCP_OPTIONS.items():
        end.setsockopt(socket.IPPROTO_TCP, option, value)


def connect_failure(address: Address, error: OSError) -> str:
    """Why no connection could be made, in words that say what to change."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS as expected ({error.reason}); is tcp:// meant?"
    if isinstance(error, TimeoutError):
        return "it does not respond"
    return error.strerror or str(error) or type(error).__name__


def greeting_failure(address: Address, error: Exception) -> str:
    """Why an engine that was reached did not let the client in."""
    if isinstance(error, StoreUnavailable) and address.scheme is Scheme.TCP:
        return f"{error}; is tls:// meant?"
    return str(error) or "the storage engine does not respond to the greeting"
