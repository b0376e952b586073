"""The pages of keys: a page of keys, one key, and commands that contain a new one."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings
from django.utils import timezone

from mqservice.accounts.access import Principal, needs_former_pepper
from mqservice.accounts.key_schemas import KeyState, state_of
from mqservice.accounts.models import ApiKey, Namespace
from mqservice.accounts.queries import newest_keys
from mqservice.accounts.scopes import Kind, Scope, parse_grants
from mqservice.accounts.settings import KeyKind
from mqservice.topics.models import Topic

PAGE_ROWS: Final = 50
TOPICS_LOOKED_MAX: Final = 200
_EXAMPLE_BODY: Final = '{"body_json":{"order":42}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    key: ApiKey
    state: KeyState
    now: datetime

    @property
    def is_access_key(self) -> bool:
        return self.key.kind is KeyKind.ACCESS

    @property
    def is_active(self) -> bool:
        return self.state is KeyState.ACTIVE

    @property
    def has_two_secrets(self) -> bool:
        until = self.key.previous_until
        return self.is_active and until is not None and until > self.now

    @property
    def needs_former_pepper(self) -> bool:
        return self.is_active and needs_former_pepper(self.key)

    @property
    def creator(self) -> str:
        """As a person reads it: a user's name, or which key."""
        kind, _, name = self.key.creator.partition(":")
        return name if kind == "user" else self.key.creator


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPage:
    """``next_before``: of the following page, empty on the last one."""

    rows: list[KeyRow]
    next_before: str


def keys_page(principal: Principal, *, text: str, state: str, before: str) -> KeysPage:
    """``state``: active, ended or anything else for all. Two queries at most."""
    is_good = {"active": True, "ended": False}.get(state)
    found = newest_keys(principal, text=text, is_good=is_good, before=before, limit=PAGE_ROWS + 1)
    rows = found[:PAGE_ROWS]
    return KeysPage(
        rows=[key_row(row) for row in rows],
        next_before=rows[-1].public_id if len(found) > PAGE_ROWS else "",
    )


def key_row(key: ApiKey) -> KeyRow:
    now = timezone.now()
    return KeyRow(key=key, state=state_of(key, now), now=now)


def commands_of(key: ApiKey, text: str, namespace: Namespace) -> str:
    """A command that the key may run, to paste: a message where it may produce, else a list. One
    query.
    """
    if key.kind is KeyKind.ACCESS:
        return (
            f"export AWS_ACCESS_KEY_ID={key.public_id}\n"
            f"export AWS_SECRET_ACCESS_KEY={text} AWS_DEFAULT_REGION=us-east-1\n"
            f"aws sqs list-queues --endpoint-url {shlex.quote(f'{settings.MQ_BASE_URL}/sqs')}"
        )
    base = f"{settings.MQ_BASE_URL}/v1/ns/{(key.namespace or namespace).name}"
    header = f"  -H {shlex.quote(f'Authorization: Bearer {text}')}"
    topic = _topic_for(key, key.namespace or namespace)
    if topic is None:
        return f"curl -sS {shlex.quote(f'{base}/topics')} \\\n{header}"
    return (
        f"curl -sS {shlex.quote(f'{base}/topics/{topic}/messages')} \\\n{header} \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(_EXAMPLE_BODY)}"
    )


def _topic_for(key: ApiKey, namespace: Namespace) -> str | None:
    """The first topic that the key may produce to."""
    grants = parse_grants(key.scopes)
    if not any(grant.scope is Scope.PRODUCE for grant in grants):
        return None
    names = Topic.objects.filter(namespace=namespace).order_by("name")
    for name in names.values_list("name", flat=True)[:TOPICS_LOOKED_MAX]:
        if any(grant.allows(Scope.PRODUCE, Kind.TOPIC, name) for grant in grants):
            return str(name)
    return None
