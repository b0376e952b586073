"""API keys on the wire of the control plane."""

from __future__ import annotations

import enum
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from ninja import Schema

from mqservice.accounts.access import needs_former_pepper
from mqservice.accounts.key_services import KeyChange, NewKey
from mqservice.accounts.limits import KEY_LIFE_MAX, OVERLAP_DEFAULT
from mqservice.accounts.models import ApiKey, Role
from mqservice.accounts.scopes import Grant, parse_grants
from mqservice.accounts.settings import (
    ENDLESS,
    EXPIRES_AT,
    KEY_CHANGE,
    MS,
    NEW_KEY,
    ROTATION,
    KeyKind,
)
from mqservice.lib.json_fields import Fields, read_object
from mqservice.lib.settings_table import Settings, read_body, read_values
from mqservice.lib.wire import moment, moment_or_none

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KeyState(enum.StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


def read_new_key(body: bytes) -> NewKey:
    """A key to be made. Raises Problem that names every fault."""
    values = _read(NEW_KEY, body)
    values["role"] = values["role"] or Role.DEVELOPER
    values["kind"] = values["kind"] or KeyKind.API
    return NewKey(**values)


def read_change(body: bytes) -> KeyChange:
    """What to set; ``expires_at: null`` takes the end away. Raises Problem naming every fault."""
    values = _read(KEY_CHANGE, body)
    has_end = read_object(body).has(EXPIRES_AT.name)
    return KeyChange(**values, is_endless=has_end and values["expires_at"] is None)


def read_overlap(body: bytes) -> timedelta:
    """For how long the former secret is good. Raises Problem that names every fault."""
    overlap_ms = read_body(ROTATION, body)["overlap"]
    return OVERLAP_DEFAULT if overlap_ms is None else overlap_ms * MS


def unique_grants(grants: list[Grant] | None) -> tuple[Grant, ...] | None:
    return None if grants is None else parse_grants(grant.text for grant in grants)


def _read(settings: Settings, body: bytes) -> dict[str, Any]:  # Any: fields of either
    fields = read_object(body)
    values = read_values(settings, fields)
    values["expires_at"] = _end(fields, values["expires_at"], values.pop("expires_in"))
    fields.reject_unknown()
    fields.reject()
    return values | {"grants": unique_grants(values["grants"])}


def _end(fields: Fields, at_ms: int | None, life_ms: int | None) -> datetime | None:
    """A time to come out of a time, or of a duration from now. Adds faults."""
    now = timezone.now()
    if at_ms is not None and at_ms != ENDLESS and life_ms is not None:
        fields.fault("expires_at", "expires_at and expires_in mean the same; give only one of them")
        return None
    if life_ms is not None:
        return now + life_ms * MS
    if at_ms is None or at_ms == ENDLESS:
        return None
    end = _EPOCH + at_ms * MS
    if not now < end <= now + KEY_LIFE_MAX:
        days = KEY_LIFE_MAX.days
        fields.out_of_range("expires_at", f"must be in the future, at most {days} days from now")
    return end


class FormerSecretOut(Schema):
    """The secret before the last rotation, while it is valid."""

    last4: str
    until: str


class KeyOut(Schema):
    """`namespace` null: the whole tenant. `last_used_at` is accurate to about a minute.
    `needs_former_pepper`: use an API key, or rotate an access key, before you remove the pepper.
    """

    id: str
    kind: KeyKind
    name: str
    namespace: str | None
    role: Role
    scopes: list[str]
    state: KeyState
    last4: str
    former_secret: FormerSecretOut | None
    needs_former_pepper: bool
    created_by: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None

    @classmethod
    def of(cls, row: ApiKey) -> KeyOut:
        return cls(**_shown(row))


class NewKeyOut(KeyOut):
    """`key` is shown only in this response: the API key, or the secret of the access key `id`."""

    key: str

    @classmethod
    def made(cls, row: ApiKey, text: str) -> NewKeyOut:
        return cls(**_shown(row), key=text)


class KeyListOut(Schema):
    """A page, by id; ``next`` is the ``after`` of the following page, null on the last one."""

    keys: list[KeyOut]
    next: str | None


def state_of(row: ApiKey, now: datetime) -> KeyState:
    if row.revoked_at is not None:
        return KeyState.REVOKED
    is_over = row.expires_at is not None and row.expires_at <= now
    return KeyState.EXPIRED if is_over else KeyState.ACTIVE


def _shown(row: ApiKey) -> dict[str, Any]:  # Any: fields of an answer, checked by pydantic
    now = timezone.now()
    state = state_of(row, now)
    former = None
    if row.previous_until is not None and row.previous_until > now and state is KeyState.ACTIVE:
        former = FormerSecretOut(last4=row.previous_last4, until=moment(row.previous_until))
    return {
        "id": row.public_id,
        "kind": row.kind,
        "name": row.name,
        "namespace": None if row.namespace is None else row.namespace.name,
        "role": Role(row.role),
        "scopes": list(row.scopes),
        "state": state,
        "last4": row.last4,
        "former_secret": former,
        "needs_former_pepper": state is KeyState.ACTIVE and needs_former_pepper(row),
        "created_by": row.creator or None,
        "created_at": moment(row.created_at),
        "expires_at": moment_or_none(row.expires_at),
        "revoked_at": moment_or_none(row.revoked_at),
        "last_used_at": moment_or_none(row.last_used_at),
    }
