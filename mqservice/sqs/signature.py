"""AWS Signature Version 4: who has signed a request, in its header or in its query.

    head ── read ──▶ SignedRequest ── its access key: cached, or NotLoaded ──▶ Principal
                          │ body, by its hash                                     │ secrets
                          ▼                                                       ▼
                 canonical request ──▶ string to sign ──▶ HMAC ◀── signing key of day and region

Refused are what is not signed and decides something (another host, action or hash), dates more
than ``SKEW_MS`` away, session tokens, and bodies that the signature does not cover. Every region is
ours; the service has to be ``sqs``. What a client sends is kept only once its signature was found
good.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

from mqservice.accounts.access import Principal, SigningSecret
from mqservice.delivery.path_routes import NotLoaded
from mqservice.lib.bounded_cache import BoundedCache
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.durations import DAY_MS, MINUTE_MS, SECOND_MS
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms
from mqservice.sqs.errors import SqsError
from mqservice.sqs.replays import REPEAT_MS_MAX, SeenSignatures

SKEW_MS: Final = 15 * MINUTE_MS
EXPIRES_MS_MAX: Final = 7 * DAY_MS
AUTHORIZATION_BYTES_MAX: Final = 4_096
_HEADERS_MAX: Final = 64  # that are signed
_ALGORITHM: Final = b"AWS4-HMAC-SHA256"
_SERVICE: Final = b"sqs"
_TERMINATOR: Final = b"aws4_request"
_SIGNATURE_CHARS: Final = 64
_STAMP: Final = re.compile(rb"\d{8}T\d{6}Z", re.ASCII)
_SIGNED_NAMES: Final = re.compile(rb"[!#-:<-@\[-~]+(;[!#-:<-@\[-~]+)*")  # none in upper case
_PLAIN_PATH: Final = re.compile(rb"/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*[A-Za-z0-9_~-]*")
_USUAL_PATHS: Final = (b"/sqs/", b"/sqs", b"/")
# Headers that decide what a request does: where they are sent, they have to be signed.
_DECISIVE: Final = (b"x-amz-target", b"x-amz-content-sha256")
_IN_QUERY: Final = (
    b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Date", b"X-Amz-Expires",
    b"X-Amz-SignedHeaders", b"X-Amz-Signature",
)  # fmt: skip
_KNOWN_BYTES_MAX: Final = 1 << 20
_KEYS_MAX: Final = 8  # of one credential: present and former secrets


class SignatureError(SqsError):
    """A request that nobody can be held to have signed."""


def missing_token() -> SignatureError:
    return SignatureError(
        "MissingAuthenticationTokenException", "Request is missing Authentication Token"
    )


def incomplete(message: str) -> SignatureError:
    return SignatureError("IncompleteSignatureException", message)


def unknown_key(
    message: str = "The security token included in the request is invalid.",
) -> SignatureError:
    return SignatureError("UnrecognizedClientException", message)


def does_not_match(message: str) -> SignatureError:
    return SignatureError("InvalidSignatureException", message)


def expired(message: str) -> SignatureError:
    return SignatureError("RequestExpired", message)


class AccessKeys(Protocol):
    """What this asks of a cache of access keys, by their ids."""

    @property
    def cached(self) -> Callable[[bytes], Principal | None]: ...

    def load(self, authorization: bytes, /) -> Awaitable[Principal]: ...


class Credential:
    """Who signs, for which day and region, and which headers: the same in many requests."""

    __slots__ = ("day", "key_id", "keys", "lines", "names", "scope", "signed_names", "unsigned")

    def __init__(self, credential: bytes, signed_names: bytes) -> None:
        """Raises SignatureError."""
        parts = credential.split(b"/")
        if len(parts) != 5 or not parts[0] or not parts[2]:
            raise incomplete(
                "Credential must have exactly 5 slash-delimited elements, e.g. "
                f"keyid/date/region/service/term, got {_shown(credential)}"
            )
        self.key_id, self.day, _, service, terminator = parts
        if service != _SERVICE:
            raise does_not_match("Credential should be scoped to correct service: 'sqs'.")
        if terminator != _TERMINATOR:
            raise does_not_match(
                "Credential should be scoped with a valid terminator: 'aws4_request', not "
                f"{_shown(terminator)}."
            )
        self.names = signed_names.split(b";")
        if len(self.names) > _HEADERS_MAX or _SIGNED_NAMES.fullmatch(signed_names) is None:
            raise incomplete("SignedHeaders must be names in lower case, separated by ';'.")
        if b"host" not in self.names:
            raise does_not_match("'Host' must be a 'SignedHeader' in the AWS Authorization.")
        self.signed_names = signed_names
        self.lines = b"".join(b"%b:%%b\n" % name.replace(b"%", b"%%") for name in self.names)
        self.unsigned = [name for name in _DECISIVE if name not in self.names]
        self.scope = credential[len(self.key_id) + 1 :]
        self.keys: dict[bytes, bytes] = {}  # by secret, of those that have signed

    def signing_key(self, secret: bytes) -> bytes:
        """The key of ``secret`` for this day and region: derived anew until it is kept."""
        key = self.keys.get(secret)
        if key is None:
            key = b"AWS4" + secret
            for part in self.scope.split(b"/"):
                key = hmac.digest(key, part, "sha256")
        return key


class SignedRequest:
    """A request's head, whose claims are well-formed and in time but not proven yet."""

    __slots__ = (
        "claimed_hash", "credential", "head", "is_link", "loaded", "prefix", "signature", "stamp",
    )  # fmt: skip

    def __init__(
        self,
        credential: Credential,
        signature: bytes,
        stamp: bytes,
        head: bytes,
        claimed_hash: bytes | None,
        *,
        prefix: bytes | None = None,
        is_link: bool = False,
    ) -> None:
        self.credential = credential
        self.signature = signature
        self.stamp = stamp
        self.head = head  # the canonical request without the hash at its end
        self.claimed_hash = claimed_hash
        self.prefix = prefix  # of the header, if all but the signature is in it
        self.is_link = is_link  # signed in its query
        self.loaded: Principal | None = None  # whose key it names, where that was not cached

    @property
    def key_id(self) -> bytes:
        """Of the access key that is to have signed it."""
        return self.credential.key_id


class Signatures:
    """Reads and verifies signatures; see the module's docstring. One per process and event loop."""

    def __init__(
        self, keys: AccessKeys, *, clock: Clock | None = None, seen: SeenSignatures | None = None
    ) -> None:
        self._keys = keys
        self._clock = clock or SystemClock()
        self._seen = seen or SeenSignatures()
        self._stamp: bytes | None = None
        self._stamp_ms = 0  # of the stamp read last: most come of the same second
        self._known = BoundedCache[bytes, Credential](
            bytes_max=_KNOWN_BYTES_MAX, entry_bytes_max=4 * AUTHORIZATION_BYTES_MAX
        )

    def read(
        self, method: str, path: bytes, query: bytes, headers: Sequence[tuple[bytes, bytes]]
    ) -> SignedRequest:
        """The signature in a request's head. Needs no body and asks for no key.

        ``path`` and ``query`` are as they were sent, names of ``headers`` in lower case. Raises
        SignatureError.
        """
        fields = dict(headers)
        if len(fields) != len(headers):
            fields = _joined(headers)
        authorization = fields.get(b"authorization")
        if b"X-Amz-" in query:
            pairs = _query_pairs(query)
            given = {name: value for name, value in pairs if name.startswith(b"X-Amz-")}
            if b"X-Amz-Algorithm" in given:
                if authorization is not None:
                    raise incomplete("Sign a request in its header or in its query, not in both.")
                return self._of_query(method, path, pairs, given, fields)
        if authorization is None:
            raise missing_token()
        token = fields.get(b"x-amz-security-token")
        if token:
            raise _no_session_tokens()
        before, _, signature = authorization.rpartition(b"Signature=")
        prefix: bytes | None = before
        credential = self._known.get(before)
        if credential is None:
            credential, found = _of_header(authorization)
            if found != signature:  # it is not at the end
                prefix, signature = None, found
        stamp = fields.get(b"x-amz-date") or _http_date(fields.get(b"date"))
        self._check_date(credential, stamp)
        head = _canonical_head(method, path, query, fields, credential)
        claimed_hash = fields.get(b"x-amz-content-sha256")
        return SignedRequest(credential, signature, stamp, head, claimed_hash, prefix=prefix)

    def verify(self, signed: SignedRequest, body: bytes) -> Principal:
        """Who has signed this request with this body. Calls nobody.

        Raises SignatureError, and NotLoaded where the access key is not cached.
        """
        principal = self._keys.cached(signed.key_id) or signed.loaded
        if principal is None:
            raise NotLoaded(partial(self._load, signed))
        body_hash = hashlib.sha256(body).hexdigest().encode()
        if signed.claimed_hash is not None and signed.claimed_hash != body_hash:
            raise _wrong_hash(signed.claimed_hash)
        credential = signed.credential
        to_sign = b"%b\n%b\n%b\n%b" % (
            _ALGORITHM,
            signed.stamp,
            credential.scope,
            hashlib.sha256(signed.head + body_hash).hexdigest().encode(),
        )
        now_ms = self._clock.now_ms()
        for secret in principal.signing_secrets:
            if secret.until_ms is not None and secret.until_ms <= now_ms:
                continue
            key = credential.signing_key(secret.value)
            made = hmac.digest(key, to_sign, "sha256")
            if hmac.compare_digest(made.hex().encode(), signed.signature):
                self._accept(signed, secret, key, made)
                return principal
        raise does_not_match(
            "The request signature we calculated does not match the signature you provided. Check "
            "your AWS Secret Access Key and signing method. Consult the service documentation for "
            "details."
        )

    def is_known(self, signed: SignedRequest) -> bool:
        """Whether its access key is cached, whoever has signed."""
        return self._keys.cached(signed.key_id) is not None

    async def require_key(self, signed: SignedRequest) -> None:
        """Refuse an access key that is none, before a body is read. Raises SignatureError, or
        Problem when nobody can know.
        """
        if not self.is_known(signed):
            await self._find(signed)  # not kept: the key may be revoked while the body arrives

    async def _load(self, signed: SignedRequest) -> None:
        # While PostgreSQL is away, the cache has nothing that it calls fresh.
        signed.loaded = await self._find(signed)

    async def _find(self, signed: SignedRequest) -> Principal:
        try:
            return await self._keys.load(signed.key_id)
        except Problem as problem:
            if problem.status == 401:
                raise unknown_key() from problem
            raise

    def _accept(
        self, signed: SignedRequest, secret: SigningSecret, key: bytes, made: bytes
    ) -> None:
        """Raises SignatureError for one that was accepted before, too long ago."""
        if signed.is_link:
            return  # made to be used until it expires
        if self._seen.is_late(int.from_bytes(made), self._clock.monotonic_ms()):
            raise expired(
                "This request was received before, more than "
                f"{REPEAT_MS_MAX // SECOND_MS} s ago. Sign it again to repeat it."
            )
        credential = signed.credential
        if signed.prefix is not None and secret.value not in credential.keys:
            if len(credential.keys) >= _KEYS_MAX:
                credential.keys.clear()
            credential.keys[secret.value] = key
            self._known.put(signed.prefix, credential, 4 * len(signed.prefix))

    def _of_query(
        self,
        method: str,
        path: bytes,
        pairs: list[tuple[bytes, bytes]],
        given: Mapping[bytes, bytes],
        fields: Mapping[bytes, bytes],
    ) -> SignedRequest:
        if given.get(b"X-Amz-Security-Token") or fields.get(b"x-amz-security-token"):
            raise _no_session_tokens()
        missing = [name.decode() for name in _IN_QUERY if not given.get(name)]
        if missing:
            raise incomplete(f"AWS query-string parameters must include {', '.join(missing)}.")
        if given[b"X-Amz-Algorithm"] != _ALGORITHM:
            raise _unknown_algorithm(given[b"X-Amz-Algorithm"])
        if sum(name.startswith(b"X-Amz-") for name, _ in pairs) != len(given):
            raise incomplete("AWS query-string parameters must be given once each.")
        credential = Credential(given[b"X-Amz-Credential"], given[b"X-Amz-SignedHeaders"])
        expires = given[b"X-Amz-Expires"]
        expires_ms = int(expires) * SECOND_MS if expires.isdigit() and len(expires) <= 6 else 0
        if not SECOND_MS <= expires_ms <= EXPIRES_MS_MAX:
            raise incomplete(f"X-Amz-Expires must be 1 to {EXPIRES_MS_MAX // SECOND_MS} seconds.")
        stamp = given[b"X-Amz-Date"]
        self._check_date(credential, stamp, expires_ms=expires_ms)
        query = _canonical_query([pair for pair in pairs if pair[0] != b"X-Amz-Signature"])
        head = _canonical_head(method, path, query, fields, credential, is_canonical=True)
        claimed_hash = given.get(b"X-Amz-Content-Sha256", fields.get(b"x-amz-content-sha256"))
        signature = given[b"X-Amz-Signature"]
        return SignedRequest(credential, signature, stamp, head, claimed_hash, is_link=True)

    def _check_date(
        self, credential: Credential, stamp: bytes, *, expires_ms: int | None = None
    ) -> None:
        """Raises SignatureError unless ``stamp`` is of the credential's day, and about now."""
        if stamp != self._stamp:
            self._stamp_ms = _ms_of(stamp)
            self._stamp = stamp
        if stamp[:8] != credential.day:
            raise does_not_match(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                f"from HTTP: {_shown(credential.day)} != {_shown(stamp[:8])}, from "
                f"{_shown(stamp)}."
            )
        now_ms, signed_ms = self._clock.now_ms(), self._stamp_ms
        if signed_ms > now_ms + SKEW_MS:
            raise does_not_match(
                f"Signature not yet current: {stamp.decode()} is still later than "
                f"{_stamp_of(now_ms + SKEW_MS)} ({_stamp_of(now_ms)} + 15 min.)"
            )
        if expires_ms is None:
            if signed_ms < now_ms - SKEW_MS:
                raise does_not_match(
                    f"Signature expired: {stamp.decode()} is now earlier than "
                    f"{_stamp_of(now_ms - SKEW_MS)} ({_stamp_of(now_ms)} - 15 min.)"
                )
        elif signed_ms + expires_ms < now_ms:
            raise expired(
                f"Request has expired: it was valid until {_stamp_of(signed_ms + expires_ms)}"
            )


def _of_header(authorization: bytes) -> tuple[Credential, bytes]:
    """Credential and signature in an Authorization header. Raises SignatureError."""
    if len(authorization) > AUTHORIZATION_BYTES_MAX:
        raise incomplete(f"Authorization must have at most {AUTHORIZATION_BYTES_MAX} bytes.")
    algorithm, _, rest = authorization.partition(b" ")
    if algorithm != _ALGORITHM:
        raise _unknown_algorithm(algorithm)
    given: dict[bytes, bytes] = {}
    for part in rest.split(b","):
        name, _, value = part.strip().partition(b"=")
        if name in given:
            raise incomplete(f"Authorization header has the parameter {_shown(name)} twice.")
        given[name] = value
    missing = [
        f"Authorization header requires '{name}' parameter."
        for name in ("Credential", "SignedHeaders", "Signature")
        if not given.get(name.encode())
    ]
    if missing:
        raise incomplete(" ".join(missing))
    return Credential(given[b"Credential"], given[b"SignedHeaders"]), given[b"Signature"]


def _canonical_head(
    method: str,
    path: bytes,
    query: bytes,
    fields: Mapping[bytes, bytes],
    credential: Credential,
    *,
    is_canonical: bool = False,
) -> bytes:
    """The canonical request up to the body's hash. Raises SignatureError."""
    for name in credential.unsigned:
        if name in fields:
            raise does_not_match(
                f"There were headers present in the request which were not signed: {name.decode()}"
            )
    try:
        values = [fields[name] for name in credential.names]
    except KeyError as exc:
        missing: bytes = exc.args[0]
        raise does_not_match(f"The signed header {_shown(missing)} is not in the request.") from exc
    lines = credential.lines % tuple(values)
    if b" " in lines or b"\t" in lines:
        lines = credential.lines % tuple(b" ".join(value.split()) for value in values)
    if query and not is_canonical:
        query = _canonical_query(_query_pairs(query))
    if path not in _USUAL_PATHS and _PLAIN_PATH.fullmatch(path) is None:
        path = _canonical_path(path)
    return b"%b\n%b\n%b\n%b\n%b\n" % (
        method.encode(),
        path,
        query,
        lines,
        credential.signed_names,
    )


def _canonical_path(path: bytes) -> bytes:
    """``path`` without dots and empty parts, encoded once more, as all services but S3 have it."""
    parts: list[bytes] = []
    for part in path.split(b"/"):
        if part == b"..":
            del parts[-1:]
        elif part not in (b"", b"."):
            parts.append(part)
    end = b"/" if parts and path.endswith(b"/") else b""
    return quote_from_bytes(b"/" + b"/".join(parts) + end, safe="/~").encode()


def _query_pairs(query: bytes) -> list[tuple[bytes, bytes]]:
    """Names and values as they are meant."""
    pairs = []
    for part in query.replace(b"+", b"%20").split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return pairs


def _canonical_query(pairs: list[tuple[bytes, bytes]]) -> bytes:
    encoded = sorted(
        (quote_from_bytes(name, safe="~"), quote_from_bytes(value, safe="~"))
        for name, value in pairs
    )
    return "&".join(f"{name}={value}" for name, value in encoded).encode()


def _joined(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers with all values of those that were sent more than once."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        fields[name] = b"%b,%b" % (fields[name], value) if name in fields else value
    return fields


def _ms_of(stamp: bytes) -> int:
    """Since 1970. Raises SignatureError."""
    if _STAMP.fullmatch(stamp) is not None:
        text = stamp.decode()
        try:
            return datetime_ms(datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC))
        except ValueError:
            pass
    raise incomplete(f"Date must be in ISO-8601 'basic format'. Got {_shown(stamp)}.")


def _http_date(date: bytes | None) -> bytes:
    """The header Date in the form of X-Amz-Date. Raises SignatureError."""
    if date is None:
        raise incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        )
    try:
        moment = parsedate_to_datetime(date.decode("latin-1"))
        if moment.tzinfo is None:  # as it calls the zone -0000
            moment = moment.replace(tzinfo=UTC)
        return _stamp_of(datetime_ms(moment)).encode()
    except (ValueError, OverflowError, OSError):
        return date  # already in that form, or in none


def _stamp_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // SECOND_MS, UTC).strftime("%Y%m%dT%H%M%SZ")


def _shown(given: bytes) -> str:
    """Of what a client sent, as much as an error says of it."""
    return repr(given[:64].decode("latin-1"))


def _unknown_algorithm(algorithm: bytes) -> SignatureError:
    if not algorithm.startswith(b"AWS"):
        return missing_token()
    return incomplete(f"Sign with {_ALGORITHM.decode()}; {_shown(algorithm)} is not supported.")


def _no_session_tokens() -> SignatureError:
    return unknown_key(
        "Session tokens are not supported: use an access key of this service without "
        "AWS_SESSION_TOKEN."
    )


def _wrong_hash(claimed_hash: bytes) -> SignatureError:
    if len(claimed_hash) == _SIGNATURE_CHARS:
        return does_not_match(
            "The provided 'x-amz-content-sha256' header does not match what was computed."
        )
    return does_not_match(
        f"The signature must cover the body: {_shown(claimed_hash)} is not accepted in "
        "x-amz-content-sha256."
    )
