"""Requests signed by botocore, and what reads them: the outside judge of our signatures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from unittest import mock
from urllib.parse import urlsplit

import botocore.auth
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from mqservice.accounts.access import Principal, SigningSecret
from mqservice.accounts.scopes import Scope
from mqservice.delivery.path_routes import NotLoaded
from mqservice.sqs.signature import SignatureError, Signatures, unknown_key
from tests.clock import ManualClock

KEY_ID = "MQAKABCDEFGH2345"
SECRET = "mqs_Kb0f2d3c4b5a69788796a5b4c3d2e1f00112233"
REGION = "eu-central-1"
Pairs = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request as it arrives."""

    method: str
    path: bytes
    query: bytes
    headers: Pairs
    body: bytes = b""

    def header(self, name: bytes) -> bytes:
        return dict(self.headers)[name]

    def with_header(self, name: bytes, value: bytes | None) -> Sent:
        """The same with one header changed, added or, by None, taken away."""
        others = tuple(pair for pair in self.headers if pair[0] != name)
        return replace(self, headers=others if value is None else (*others, (name, value)))


@contextmanager
def signing_time(clock: ManualClock) -> Iterator[None]:
    now = datetime.fromtimestamp(clock.now_ms() / 1_000, UTC)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=now):
        yield


def signed(
    clock: ManualClock,
    *,
    method: str = "POST",
    url: str = "http://queue.test:8080/sqs/",
    headers: dict[str, str] | None = None,
    body: bytes = b"{}",
    params: dict[str, object] | None = None,
    expires_s: int | None = None,
    key_id: str = KEY_ID,
    secret: str = SECRET,
    token: str | None = None,
    region: str = REGION,
    service: str = "sqs",
) -> Sent:
    """What botocore sends: signed in its header or, with ``expires_s``, in its query."""
    credentials = Credentials(key_id, secret, token)
    order = AWSRequest(
        method=method, url=url, headers=dict(headers or {}), data=body, params=params
    )
    signer: SigV4Auth
    if expires_s is None:
        signer = SigV4Auth(credentials, service, region)
    else:
        signer = SigV4QueryAuth(credentials, service, region, expires=expires_s)
    with signing_time(clock):
        signer.add_auth(order)
    ready = order.prepare()
    target = urlsplit(ready.url)
    pairs = [(name.lower().encode(), as_bytes(value)) for name, value in ready.headers.items()]
    if not any(name == b"host" for name, _ in pairs):
        pairs.append((b"host", target.netloc.encode()))
    return Sent(
        method=ready.method,
        path=target.path.encode(),
        query=target.query.encode(),
        headers=tuple(pairs),
        body=as_bytes(ready.body or b""),
    )


def as_bytes(value: str | bytes) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value


class KnownKeys:
    """In place of a cache of access keys: what it has, and nothing else."""

    def __init__(self, *secrets: SigningSecret) -> None:
        self.principal = Principal(
            key_id=KEY_ID,
            tenant_id=7,
            tenant="acme",
            namespace_id=9,
            namespace="prod",
            scopes=frozenset(Scope),
            signing_secrets=secrets or (SigningSecret(SECRET.encode()),),
        )

    def cached(self, key_id: bytes) -> Principal | None:
        return self.principal if key_id == KEY_ID.encode() else None

    async def load(self, authorization: bytes, /) -> Principal:
        raise AssertionError("nothing is loaded here")


def reader(clock: ManualClock, *secrets: SigningSecret) -> Signatures:
    return Signatures(KnownKeys(*secrets), clock=clock)


def verify(signatures: Signatures, sent: Sent) -> Principal:
    head = signatures.read(sent.method, sent.path, sent.query, sent.headers)
    return signatures.verify(head, sent.body)


def accepts(signatures: Signatures, sent: Sent) -> bool:
    """Whether it is the known key that has signed."""
    return verify(signatures, sent).key_id == KEY_ID


def refusal(signatures: Signatures, sent: Sent) -> SignatureError:
    """Why a request is refused."""
    try:
        verify(signatures, sent)
    except SignatureError as error:
        return error
    except NotLoaded:
        return unknown_key()  # as the cache says when it has looked
    raise AssertionError(f"accepted: {sent}")
