"""From a credential to what it may do, or a refusal. The only place that compares keys.

    Authorization header ──▶ KeyCache.cached ──hit──▶ Principal        one dict hit
                                  │ miss
                                  ▼
                             KeyCache.load ──▶ one query, one MAC ──▶ Principal, or 401

A tenant comes from the credential alone, never from a path or a body: every later look-up starts
from ``Principal.tenant_id``, so what belongs to somebody else cannot be told from what does not
exist.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from mqservice.accounts.models import ApiKey
from mqservice.lib.api_keys import ApiKeyText, parse_api_key
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.lookup_cache import CacheLimits, LookupCache, LookupUnavailable
from mqservice.lib.names import OWN_NAMESPACE
from mqservice.lib.problem import Problem
from mqservice.lib.signing import derive_key
from mqservice.lib.timestamps import datetime_ms

PEPPER_VERSION: Final = 1
LAST_USED_STEP: Final = timedelta(minutes=1)
HEADER_BYTES_MAX: Final = 256
_NO_MAC: Final = bytes(32)


class Scope(enum.StrEnum):
    """What a key may do inside its namespaces."""

    PRODUCE = "produce"
    CONSUME = "consume"
    MANAGE = "manage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. ``namespace`` is set when the key is bound to one; None means all of the tenant."""

    key_id: str
    tenant_id: int
    tenant: str
    namespace_id: int | None
    namespace: str | None
    scopes: frozenset[Scope]
    expires_at_ms: int | None = None

    def namespace_named(self, ns: str) -> str | None:
        """The namespace a path means by ``ns``, or None when it is none of this key's."""
        if ns == OWN_NAMESPACE or ns == self.namespace:
            return self.namespace
        return ns if self.namespace is None else None

    def require(self, scope: Scope) -> None:
        """Refuse with 403 unless the key has ``scope``."""
        if scope not in self.scopes:
            raise Problem.of("FORBIDDEN", f"this key does not have the scope {scope.value}")


def secret_mac(key: ApiKeyText) -> bytes:
    """What the row keeps of a secret: HMAC-SHA-256 under a pepper that is not in the database."""
    pepper = derive_key(settings.MQ_KEY_PEPPER, "api-key-pepper")
    return hmac.digest(pepper, key.secret.encode("ascii"), hashlib.sha256)


def find_principal(authorization: bytes) -> Principal | None:
    """Whose header this is, or None. One query, and at most one write a minute and key."""
    key = _bearer(authorization)
    if key is None:
        return None
    row = (
        ApiKey.objects.select_related("tenant", "namespace").filter(public_id=key.public_id).first()
    )
    mac = secret_mac(key)  # before looking at the row: an unknown id costs the same work
    if not hmac.compare_digest(mac, _NO_MAC if row is None else bytes(row.secret_mac)):
        return None
    assert row is not None, "no MAC is all zeros"
    now = timezone.now()
    if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        return None
    ApiKey.objects.filter(
        Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_STEP), pk=row.pk
    ).update(last_used_at=now)
    return Principal(
        key_id=row.public_id,
        tenant_id=row.tenant_id,
        tenant=row.tenant.name,
        namespace_id=row.namespace_id,
        namespace=None if row.namespace is None else row.namespace.name,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        expires_at_ms=None if row.expires_at is None else datetime_ms(row.expires_at),
    )


def unauthenticated() -> Problem:
    """One answer for every kind of bad credential: no hint which part of it was wrong."""
    return Problem.of("UNAUTHENTICATED", "send a valid API key as Authorization: Bearer mqk_...")


def metadata_unavailable() -> Problem:
    """PostgreSQL is away for longer than cached answers may be used."""
    return Problem.of(
        "METADATA_UNAVAILABLE",
        "keys and settings cannot be read at the moment",
        retry_after_ms=1_000,
        stored=False,
    )


class KeyCache:
    """Principals by the bytes of the Authorization header. Used on one event loop."""

    def __init__(
        self,
        find: Callable[[bytes], Awaitable[Principal | None]],
        *,
        limits: CacheLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._cache: LookupCache[bytes, Principal] = LookupCache(
            find, life_ms=self._life_ms, limits=limits, clock=self._clock
        )
        self.cached: Callable[[bytes], Principal | None] = self._cache.get
        self.clear = self._cache.clear

    async def load(self, authorization: bytes) -> Principal:
        """Raises Problem: 401 for anything but a valid key, 503 when nobody can know."""
        if len(authorization) > HEADER_BYTES_MAX:
            raise unauthenticated()
        if _bearer(authorization) is None:
            raise unauthenticated()
        try:
            principal = await self._cache.load(authorization)
        except LookupUnavailable as exc:
            raise metadata_unavailable() from exc
        if principal is None:
            raise unauthenticated()
        return principal

    def drop_key(self, public_id: str) -> None:
        """Forget one key: it was revoked, changed or created."""
        self._cache.drop_where(lambda principal: principal.key_id == public_id)

    def _life_ms(self, principal: Principal) -> int | None:
        if principal.expires_at_ms is None:
            return None
        return max(0, principal.expires_at_ms - self._clock.now_ms())


def _bearer(authorization: bytes) -> ApiKeyText | None:
    scheme, _, token = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    try:
        return parse_api_key(token.strip().decode("ascii"))
    except UnicodeDecodeError:
        return None
