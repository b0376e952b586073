"""Turns a credential into what it may do, or an error. The only place that compares keys.

    Authorization header ──▶ KeyCache.cached ──hit──▶ Principal        one dict hit
                                  │ miss
                                  ▼
                             KeyCache.load ──▶ one query, one MAC ──▶ Principal, or 401
    row changed ──▶ KeyCache.drop_key ──▶ KeyWatch ──▶ open sockets and parked polls of the key

A tenant comes from the credential alone, never from a path or a body: every later look-up starts
from ``Principal.tenant_id``, so what belongs to somebody else cannot be told from what does not
exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from django.conf import settings
from django.db import connection
from django.utils import timezone

from mqservice.accounts.key_uses import uses
from mqservice.accounts.models import ApiKey, Role
from mqservice.accounts.roles import (
    ACCOUNT_WIDE,
    CHANGING,
    PERMISSIONS,
    TENANT_WIDE,
    Permission,
    permits_scope,
)
from mqservice.accounts.scopes import ANYTHING, Grant, Kind, Scope, parse_grants
from mqservice.accounts.settings import KeyKind
from mqservice.lib.access_keys import access_key_secret, is_made_here, is_seed_of
from mqservice.lib.api_keys import ApiKeyText, parse_api_key
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.lookup_cache import CacheLimits, LookupCache, LookupUnavailable
from mqservice.lib.names import MAIN_SHARD, OWN_NAMESPACE
from mqservice.lib.problem import Problem
from mqservice.lib.signing import derive_key
from mqservice.lib.timestamps import datetime_ms

OnKeyChange = Callable[["Principal | None"], None]


class KeyWatch:
    """Notifies long-running holders of a key when it changes: sockets and long polls.

        join(header, key id, heard) ──▶ [KeyWatch] ◀── changed(key id), when its row has changed
                                            │ one look-up a header, whoever waits
                                            ▼
                                     heard(Principal), or heard(None): it is worth nothing any more

    While nobody can know, because PostgreSQL is away, nothing is told. Used on one event loop. One
    per cache of keys.
    """

    def __init__(self, load: Callable[[bytes], Awaitable[Principal]]) -> None:
        """``load`` raises Problem, with 401 for a key that is not valid."""
        self._load = load
        self._watching: dict[str, dict[bytes, set[OnKeyChange]]] = {}  # by key id, then header
        self._refreshing: dict[bytes, asyncio.Task[None]] = {}
        self._again: set[bytes] = set()  # changed once more while they were asked for

    def join(self, authorization: bytes, key_id: str, heard: OnKeyChange) -> None:
        """Call ``heard`` after each change of the key, until ``leave``."""
        self._watching.setdefault(key_id, {}).setdefault(authorization, set()).add(heard)

    def leave(self, authorization: bytes, key_id: str, heard: OnKeyChange) -> None:
        """Idempotent."""
        headers = self._watching.get(key_id, {})
        waiting = headers.get(authorization, set())
        waiting.discard(heard)
        if not waiting:
            headers.pop(authorization, None)
        if not headers:
            self._watching.pop(key_id, None)

    def changed(self, key_id: str | None) -> None:
        """The key's row is another now; None: any may be."""
        key_ids = list(self._watching) if key_id is None else [key_id]
        for each in key_ids:
            for authorization in list(self._watching.get(each, ())):
                self.refresh(authorization, each)

    def refresh(self, authorization: bytes, key_id: str) -> None:
        """Find out what the key may do now, and tell all who wait on it."""
        if authorization in self._refreshing:
            self._again.add(authorization)
            return
        self._refreshing[authorization] = asyncio.get_running_loop().create_task(
            self._refresh(authorization, key_id), name="recheck of a key"
        )

    async def _refresh(self, authorization: bytes, key_id: str) -> None:
        principal: Principal | None = None
        is_known = True
        try:
            principal = await self._load(authorization)
        except Problem as problem:
            is_known = problem.status == 401
        finally:
            del self._refreshing[authorization]
        if authorization in self._again:
            self._again.discard(authorization)
            self.refresh(authorization, key_id)
            return
        if is_known:
            for heard in list(self._watching.get(key_id, {}).get(authorization, ())):
                heard(principal)


HEADER_BYTES_MAX: Final = 256
DECISIONS_MAX: Final = 1_000  # remembered of one key
_NO_MAC: Final = bytes(32)
# Each request of the control plane asks this: written out, because the ORM takes several times as
# long to write it as PostgreSQL to answer. The columns of _KeyRow, in its order.
_FIND_KEY: Final = (
    "SELECT key.tenant_id, tenant.name, key.namespace_id, namespace.name,"
    " namespace.shard, key.secret_mac, key.previous_mac, key.previous_until, key.expires_at,"
    " key.revoked_at, key.role, key.scopes,"
    " key.pepper_version"
    " FROM accounts_apikey AS key JOIN accounts_tenant AS tenant ON tenant.id = key.tenant_id"
    " LEFT JOIN accounts_namespace AS namespace ON namespace.id = key.namespace_id"
    " WHERE key.public_id = %s"
)
# Of the present secret or, while it is good still, of the one before it.
_RENEW_MAC: Final = (
    "UPDATE accounts_apikey SET"
    " pepper_version = CASE WHEN secret_mac = %s THEN %s ELSE pepper_version END,"
    " secret_mac = CASE WHEN secret_mac = %s THEN %s ELSE secret_mac END,"
    " previous_mac = CASE WHEN previous_mac = %s THEN %s ELSE previous_mac END"
    " WHERE public_id = %s"
)


class _KeyRow(NamedTuple):
    tenant_id: int
    tenant: str
    namespace_id: int | None
    namespace: str | None
    shard: str | None
    secret_mac: bytes
    previous_mac: bytes | None
    previous_until: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    role: str
    scopes: list[str]
    pepper_version: int


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """A secret that signs requests, of an access key; ``until_ms`` None: as long as the key."""

    value: bytes = field(repr=False)
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. ``namespace`` is set when the key is bound to one; None means all of the tenant.
    ``user`` is the name of a person, who has no key.

    ``scopes`` hold for every topic and group, ``grants`` for those of their patterns. Both are
    already cut down to what ``role`` allows.
    """

    key_id: str
    tenant_id: int
    tenant: str
    namespace_id: int | None
    namespace: str | None
    scopes: frozenset[Scope]
    grants: tuple[Grant, ...] = ()
    role: Role = Role.DEVELOPER
    expires_at_ms: int | None = None
    user: str | None = None  # whose session it is, where it is no key
    shard: str = MAIN_SHARD  # of its namespace
    is_read_only: bool = False  # a person in a read-only namespace, who changes nothing
    signing_secrets: tuple[SigningSecret, ...] = ()  # of an access key
    _decisions: dict[tuple[Scope, Kind, str], bool] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def all_grants(self) -> tuple[Grant, ...]:
        return (*(Grant(scope=scope) for scope in self.scopes), *self.grants)

    @property
    def actor(self) -> str:
        """The name that the audit knows it by."""
        return f"key:{self.key_id}" if self.user is None else f"user:{self.user}"

    def namespace_named(self, ns: str) -> str | None:
        """The namespace a path means by ``ns``, or None when it is none of this key's."""
        if ns == OWN_NAMESPACE or ns == self.namespace:
            return self.namespace
        return ns if self.namespace is None else None

    def allows(self, scope: Scope, kind: Kind, name: str) -> bool:
        """Whether it may do ``scope`` to this topic or group, which need not exist."""
        return scope in self.scopes or (bool(self.grants) and self._decide(scope, kind, name))

    def require(self, scope: Scope, kind: Kind | None = None, name: str = "") -> None:
        """Refuse with 403 unless the key has ``scope``, for this topic or group or for all.

        A key without patterns costs one look into a set, one with them a dict hit.
        """
        if scope in self.scopes:
            return
        if kind is not None and self.grants:
            if self._decide(scope, kind, name):
                return
            where = f" for the {kind.value} {name}"
        else:
            where = " for all topics and groups" if self.grants else ""
        raise Problem.of("FORBIDDEN", f"this key does not have the scope {scope.value}{where}")

    def require_somewhere(self, scope: Scope) -> None:
        """Refuse with 403 unless the key has ``scope`` for something at least."""
        if scope in self.scopes or any(grant.scope is scope for grant in self.grants):
            return
        raise Problem.of("FORBIDDEN", f"this key does not have the scope {scope.value}")

    def patterns(self, scope: Scope, kind: Kind) -> tuple[str, ...]:
        """What the key has ``scope`` for: names, and beginnings of names that end in ``*``."""
        if scope in self.scopes:
            return (ANYTHING,)
        return tuple(
            grant.pattern
            for grant in self.grants
            if grant.scope is scope and grant.kind in (None, kind)
        )

    def permits(self, permission: Permission) -> bool:
        """Whether ``require_permission`` would let it pass."""
        if permission not in PERMISSIONS[self.role]:
            return False
        if self.is_read_only and permission in CHANGING:
            return False
        if permission in ACCOUNT_WIDE and Scope.MANAGE not in self.scopes:
            return False
        return permission not in TENANT_WIDE or self.namespace is None

    def require_permission(self, permission: Permission) -> None:
        """Refuse with 403 unless role, scopes and namespace of the key allow it."""
        if self.permits(permission):
            return
        if permission not in PERMISSIONS[self.role]:
            why = f"the role {self.role.value} does not have it"
        elif self.is_read_only and permission in CHANGING:
            why = "the namespace is read-only"
        elif permission in TENANT_WIDE and self.namespace is not None:
            why = f"the key is limited to the namespace {self.namespace}"
        else:
            why = "the key does not have the scope manage for all topics and groups"
        raise Problem.of("FORBIDDEN", f"this needs the permission {permission.value}; {why}")

    def _decide(self, scope: Scope, kind: Kind, name: str) -> bool:
        question = scope, kind, name
        decided = self._decisions.get(question)
        if decided is None:
            decided = any(grant.allows(scope, kind, name) for grant in self.grants)
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[question] = decided
        return decided


def secret_mac(key: ApiKeyText) -> bytes:
    """What the row keeps of a secret: HMAC-SHA-256 under a pepper that is not in the database."""
    return _mac_with_pepper(settings.MQ_KEY_PEPPER, key)


def _mac_with_pepper(pepper: str, key: ApiKeyText) -> bytes:
    derived = derive_key(pepper, "api-key-pepper")
    return hmac.digest(derived, key.secret.encode("ascii"), hashlib.sha256)


def find_principal(authorization: bytes) -> Principal | None:
    """Whose header this is, or None. One query; that the key was used is noted in memory.

    A key whose row was written under a former pepper costs one more, once: it is written anew.
    """
    key = key_of_header(authorization)
    if key is None:
        return None
    former = [_mac_with_pepper(pepper, key) for pepper in settings.MQ_KEY_PEPPER_FALLBACKS]
    return principal_of_key(key.public_id, secret_mac(key), *former)


def find_access_key(key_id: bytes) -> Principal | None:
    """Who signs with the access key of this id, and by which secrets; None where there is none. One
    query.
    """
    public_id = key_id.decode("ascii")
    row = _find_row(public_id)
    now = timezone.now()
    if row is None or row.revoked_at is not None:
        return None
    if row.expires_at is not None and row.expires_at <= now:
        return None
    seeds: list[tuple[bytes, int | None]] = [(row.secret_mac, None)]
    if row.previous_mac is not None and row.previous_until is not None:
        seeds.append((row.previous_mac, datetime_ms(row.previous_until)))
    secrets = tuple(
        SigningSecret(secret.encode(), until_ms)
        for seed, until_ms in seeds
        if (secret := access_key_secret(_peppers(), public_id, bytes(seed))) is not None
    )
    if not secrets:
        return None
    uses.note(public_id, now)
    return _principal(public_id, row, row.expires_at, secrets)


def principal_of_key(public_id: str, mac: bytes, *former: bytes) -> Principal | None:
    """Of the key whose secret has this MAC, or under former peppers those, while it is good. One
    query, and one more that writes a former MAC anew.
    """
    row = _find_row(public_id)
    now = timezone.now()
    present = _NO_MAC if row is None else bytes(row.secret_mac)
    previous = _NO_MAC if row is None or row.previous_mac is None else bytes(row.previous_mac)
    is_present = _is_among(present, mac, *former)
    is_previous = _is_among(previous, mac, *former)
    if row is None or not (is_present or is_previous) or row.revoked_at is not None:
        return None
    ends = _valid_until(row, is_present=is_present)
    if ends is not None and ends <= now:
        return None
    old, version = present if is_present else previous, pepper_version()
    if not _is_among(old, mac) or (is_present and row.pepper_version != version):
        with connection.cursor() as cursor:
            cursor.execute(_RENEW_MAC, [old, version, old, mac, old, mac, public_id])
    uses.note(public_id, now)
    return _principal(public_id, row, ends)


def pepper_version() -> int:
    """Which pepper is the present one, as rows of keys have it: by chance the same of one in 32,768
    others.
    """
    return int.from_bytes(derive_key(settings.MQ_KEY_PEPPER, "pepper-version")[:2]) >> 1


def needs_former_pepper(row: ApiKey) -> bool:
    """Whether the present secret of a key is worth nothing once the former peppers are removed. An
    API key is stored under the present one when it is used.
    """
    if not settings.MQ_KEY_PEPPER_FALLBACKS:
        return False
    if row.kind is KeyKind.ACCESS:
        return not is_seed_of(settings.MQ_KEY_PEPPER, bytes(row.secret_mac))
    return row.pepper_version != pepper_version()


def _peppers() -> tuple[str, ...]:
    """The present one and those before it."""
    return settings.MQ_KEY_PEPPER, *settings.MQ_KEY_PEPPER_FALLBACKS


def _find_row(public_id: str) -> _KeyRow | None:
    with connection.cursor() as cursor:
        cursor.execute(_FIND_KEY, (public_id,))
        found = cursor.fetchone()
    return None if found is None else _KeyRow(*found)


def _principal(
    public_id: str, row: _KeyRow, ends: datetime | None, secrets: tuple[SigningSecret, ...] = ()
) -> Principal:
    role = Role(row.role)
    grants = [grant for grant in parse_grants(row.scopes) if permits_scope(role, grant.scope)]
    return Principal(
        key_id=public_id,
        tenant_id=row.tenant_id,
        tenant=row.tenant,
        namespace_id=row.namespace_id,
        namespace=row.namespace,
        shard=row.shard or MAIN_SHARD,
        scopes=frozenset(grant.scope for grant in grants if grant.is_whole),
        grants=tuple(grant for grant in grants if not grant.is_whole),
        role=role,
        expires_at_ms=None if ends is None else datetime_ms(ends),
        signing_secrets=secrets,
    )


def _is_among(kept: bytes, *macs: bytes) -> bool:
    """Takes the same time whichever it is."""
    found = [hmac.compare_digest(each, kept) for each in macs]
    return any(found)


def _valid_until(row: _KeyRow, *, is_present: bool) -> datetime | None:
    """Until when the secret is good: the key's end, or that of the former secret before it."""
    if is_present or row.previous_until is None:
        return row.expires_at
    return row.previous_until if row.expires_at is None else min(row.previous_until, row.expires_at)


def unauthenticated() -> Problem:
    """One answer for every kind of bad credential: no hint which part of it was wrong."""
    return Problem.of("UNAUTHENTICATED", "send a valid API key as Authorization: Bearer mqk_...")


def metadata_unavailable() -> Problem:
    """PostgreSQL is away for longer than cached answers may be used."""
    return Problem.of(
        "METADATA_UNAVAILABLE",
        "API keys and settings cannot be read now; try again later",
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
            find, life_ms=self._cache_ms, limits=limits, clock=self._clock
        )
        self.cached: Callable[[bytes], Principal | None] = self._cache.get
        self.watch = KeyWatch(self.load)

    def clear(self) -> None:
        """Forget all keys, and ask again for those that are watched."""
        self._cache.clear()
        self.watch.changed(None)

    async def load(self, authorization: bytes) -> Principal:
        """Raises Problem: 401 for anything but a valid key, 503 when nobody can know."""
        if len(authorization) > HEADER_BYTES_MAX or key_of_header(authorization) is None:
            raise unauthenticated()
        return await self._look_up(authorization)

    async def _look_up(self, authorization: bytes) -> Principal:
        try:
            principal = await self._cache.load(authorization)
        except LookupUnavailable as exc:
            raise metadata_unavailable() from exc
        if principal is None:
            raise unauthenticated()
        return principal

    def drop_key(self, public_id: str) -> None:
        """Forget one key: it was revoked, changed or created. Ask again if it is watched."""
        self._cache.drop_where(lambda principal: principal.key_id == public_id)
        self.watch.changed(public_id)

    def _cache_ms(self, principal: Principal) -> int | None:
        if principal.expires_at_ms is None:
            return None
        return max(0, principal.expires_at_ms - self._clock.now_ms())


class HolderCache(KeyCache):
    """Principals by who holds a ticket, as ``ticket_holders`` writes it: never a client's words."""

    async def load(self, authorization: bytes) -> Principal:
        return await self._look_up(authorization)


class AccessKeyCache(KeyCache):
    """Principals by the ids of their access keys: an id that is found here proves nothing, what is
    signed with one of its secrets does.
    """

    async def load(self, authorization: bytes) -> Principal:
        key_id = authorization[:HEADER_BYTES_MAX].decode("latin-1")
        if not is_made_here(key_id, _peppers()):
            raise unauthenticated()
        return await self._look_up(authorization)


def key_of_header(authorization: bytes) -> ApiKeyText | None:
    """The key in a header, which need not be a good one."""
    scheme, _, token = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    try:
        return parse_api_key(token.strip().decode("ascii"))
    except UnicodeDecodeError:
        return None
