"""The key or session behind a ticket; checked again for as long as its socket is open.

    POST /v1/ws-tickets ── Holder ──▶ Valkey ──▶ handshake ──▶ [find_holder] ──▶ Principal
    key or session ended, member removed ──NOTIFY──▶ found anew ──▶ the socket ends

A holder is no credential: it names a row and the MAC of a secret, not the secret, and no request
can bring one. What it may do is looked up each time; ``scopes`` and ``namespace`` only narrow it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
from allauth.usersessions.models import UserSession
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from mqservice.accounts.access import Principal, principal_of_key
from mqservice.accounts.models import Member, Namespace, User
from mqservice.accounts.scopes import Grant, are_covered, parse_grants
from mqservice.accounts.session_access import session_principal
from mqservice.lib.timestamps import datetime_ms

# What apps above this one take from a person's session before it opens a socket.
person_limits: Final[list[Callable[[Principal], Principal]]] = []


class Holder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key with the MAC of the secret it showed, or a person's session by its row's id.

    ``scopes`` None: all that the key or the person may do.
    """

    key_id: str = ""
    key_mac: bytes = b""
    session_row: int = 0
    namespace: str | None = None
    scopes: list[str] | None = None

    @property
    def text(self) -> bytes:
        return msgspec.json.encode(self)


def find_holder(text: bytes) -> Principal | None:
    """What ``Holder.text`` may do now, None where it lets nobody in any more. Some queries."""
    holder = msgspec.json.decode(text, type=Holder)
    if holder.session_row:
        found = _of_session(holder)
    else:
        found = _of_key(holder)
    if found is None or holder.scopes is None:
        return found
    wanted = parse_grants(holder.scopes)
    if not are_covered(wanted, found.all_grants):
        return None
    return narrowed(found, wanted)


def narrowed(principal: Principal, grants: tuple[Grant, ...]) -> Principal:
    """``principal`` with nothing but ``grants``, which it has."""
    return replace(
        principal,
        scopes=frozenset(grant.scope for grant in grants if grant.is_whole),
        grants=tuple(grant for grant in grants if not grant.is_whole),
        _decisions={},
    )


def session_id_of(digest: str) -> str:
    """What a session is known by where keys have their ids; the trigger makes the digest too."""
    return f"session-{digest}"


def _of_key(holder: Holder) -> Principal | None:
    found = principal_of_key(holder.key_id, holder.key_mac)
    if found is None or holder.namespace is None or holder.namespace == found.namespace:
        return found
    if found.namespace is not None:
        return None
    own = Namespace.objects.filter(tenant_id=found.tenant_id, name=holder.namespace)
    place = own.first()
    if place is None:
        return None
    return replace(
        found, namespace_id=place.pk, namespace=place.name, shard=place.shard, _decisions={}
    )


def _of_session(holder: Holder) -> Principal | None:
    row = UserSession.objects.select_related("user").filter(pk=holder.session_row).first()
    if row is None or not isinstance(row.user, User) or not row.user.is_active:
        return None
    session = Session.objects.filter(
        session_key=row.session_key, expire_date__gt=timezone.now()
    ).first()
    if session is None:
        return None
    content = session.get_decoded()
    is_of_user = content.get(SESSION_KEY) == str(row.user.pk)
    known = str(content.get(HASH_SESSION_KEY, ""))
    if not is_of_user or not constant_time_compare(known, row.user.get_session_auth_hash()):
        return None
    return principal_of_member(
        row.user,
        holder.namespace or "",
        session_key=row.session_key,
        expires_at_ms=datetime_ms(session.expire_date),
    )


def principal_of_member(
    user: User, namespace: str, *, session_key: str, expires_at_ms: int
) -> Principal | None:
    """What a person may do in a namespace of a tenant they belong to. Two queries."""
    place = Namespace.objects.select_related("tenant").filter(name=namespace).first()
    if place is None:
        return None
    member = Member.objects.filter(user=user, tenant_id=place.tenant_id).first()
    if member is None:
        return None
    digest = hashlib.md5(session_key.encode(), usedforsecurity=False).hexdigest()
    principal = replace(
        session_principal(member, user, place),
        key_id=session_id_of(digest),
        namespace_id=place.pk,
        namespace=place.name,
        shard=place.shard,
        expires_at_ms=expires_at_ms,
        is_read_only=False,  # sockets go by scopes alone
    )
    for limited in person_limits:
        principal = limited(principal)
    return principal
