"""API keys on the wire of the control plane."""

from __future__ import annotations

import enum
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from ninja import Schema

from mqservice.accounts.key_services import KeyChange, NewKey
from mqservice.accounts.limits import (
    KEY_LIFE_MAX,
    KEY_NAME_CHARS_MAX,
    OVERLAP_DEFAULT,
    OVERLAP_MAX,
)
from mqservice.accounts.models import ApiKey, Role
from mqservice.accounts.scopes import SCOPES_MAX, Grant, parse_grant, parse_grants
from mqservice.lib.json_fields import Fields, read_object, shown
from mqservice.lib.names import name_fault
from mqservice.lib.wire import moment

_MS = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KeyState(enum.StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


def read_new_key(body: bytes) -> NewKey:
    """A key to be made. Raises Problem that names every fault."""
    fields = read_object(body)
    name = _name(fields)
    if name is None and not fields.faults:
        fields.fault("name", "is missing")
    grants = read_grants(fields)
    role = fields.choice("role", Role) or Role.DEVELOPER
    namespace = fields.find("namespace")
    if namespace is not None:
        fault = name_fault(namespace) if isinstance(namespace, str) else "must be a name"
        if fault is not None:
            fields.fault("namespace", f"{fault}, found {shown(namespace)}")
    order = NewKey(
        name=name or "",
        grants=() if grants is None else grants,
        role=role,
        namespace=namespace if isinstance(namespace, str) else None,
        expires_at=read_expiry(fields, KEY_LIFE_MAX),
    )
    if fields.find("scopes") is None:
        fields.fault("scopes", "is missing")
    fields.reject_unknown()
    fields.reject()
    return order


def read_change(body: bytes) -> KeyChange:
    """What to set; ``expires_at: null`` takes the end away. Raises Problem naming every fault."""
    fields = read_object(body)
    change = KeyChange(
        name=_name(fields),
        grants=read_grants(fields),
        role=fields.choice("role", Role),
        expires_at=read_expiry(fields, KEY_LIFE_MAX),
        is_endless=fields.has("expires_at") and fields.find("expires_at") is None,
    )
    fields.reject_unknown()
    fields.reject()
    return change


def read_overlap(body: bytes) -> timedelta:
    """For how long the former secret is good. Raises Problem that names every fault."""
    fields = read_object(body)
    overlap_ms = fields.duration_ms("overlap", 0, OVERLAP_MAX // _MS)
    fields.reject_unknown()
    fields.reject()
    return OVERLAP_DEFAULT if overlap_ms is None else overlap_ms * _MS


def read_expiry(fields: Fields, life_max: timedelta) -> datetime | None:
    """``expires_at``, a time to come, or ``expires_in``, a duration. Adds faults."""
    at_ms = fields.time_ms("expires_at")
    life_ms = fields.duration_ms("expires_in", 1_000, life_max // _MS)
    now = timezone.now()
    if at_ms is not None and life_ms is not None:
        fields.fault("expires_at", "expires_at and expires_in mean the same; give only one of them")
        return None
    if life_ms is not None:
        return now + life_ms * _MS
    if at_ms is None:
        return None
    end = _EPOCH + at_ms * _MS
    if not now < end <= now + life_max:
        days = life_max.days
        fields.out_of_range("expires_at", f"must be in the future, at most {days} days from now")
        return None
    return end


def _name(fields: Fields) -> str | None:
    name = fields.find("name")
    if name is None:
        return None
    if (
        not isinstance(name, str)
        or not 1 <= len(name.strip()) <= KEY_NAME_CHARS_MAX
        or not name.isprintable()
    ):
        detail = f"must be 1 to {KEY_NAME_CHARS_MAX} printable characters, found {shown(name)}"
        fields.fault("name", detail)
        return None
    return name.strip()


def read_grants(fields: Fields) -> tuple[Grant, ...] | None:
    """``scopes``; None where it is absent. Adds faults."""
    value = fields.find("scopes")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > SCOPES_MAX:
        fields.fault("scopes", f"must be a list of at most {SCOPES_MAX} scopes")
        return None
    texts = []
    for index, text in enumerate(value):
        try:
            if not isinstance(text, str):
                raise ValueError(f"must be a scope such as produce:orders*, found {shown(text)}")
            texts.append(parse_grant(text).text)
        except ValueError as exc:
            fields.fault(f"scopes/{index}", str(exc))
    return parse_grants(texts)


class FormerSecretOut(Schema):
    """The secret before the last rotation, while it is valid."""

    last4: str
    until: str


class KeyOut(Schema):
    """`namespace` null: the whole tenant. `last_used_at` is accurate to about a minute."""

    id: str
    name: str
    namespace: str | None
    role: Role
    scopes: list[str]
    state: KeyState
    last4: str
    former_secret: FormerSecretOut | None
    created_by: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None

    @classmethod
    def of(cls, row: ApiKey) -> KeyOut:
        return cls(**_shown(row))


class NewKeyOut(KeyOut):
    """`key` is shown only in this response."""

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
        "name": row.name,
        "namespace": None if row.namespace is None else row.namespace.name,
        "role": Role(row.role),
        "scopes": list(row.scopes),
        "state": state,
        "last4": row.last4,
        "former_secret": former,
        "created_by": row.creator or None,
        "created_at": moment(row.created_at),
        "expires_at": _moment(row.expires_at),
        "revoked_at": _moment(row.revoked_at),
        "last_used_at": _moment(row.last_used_at),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else moment(at)
