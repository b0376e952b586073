"""Long tasks and dead letters on the command line: the responses of the API."""

from __future__ import annotations

import msgspec

ACTIVE_STATES = frozenset({"pending", "running"})


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a group gave up; its body stays as the API wrote it."""

    id: str
    offset: int
    stored_at: str
    topic: str
    reason: str
    attempts: int
    tag: str | None = None
    keys: list[str] = []
    body: str | None = None
    body_json: msgspec.Raw = msgspec.Raw()
    body_b64: str | None = None

    @property
    def body_text(self) -> str:
        """For people: text or JSON as it is, other bytes as base64."""
        if self.body is not None:
            return self.body
        if self.body_b64 is not None:
            return f"base64:{self.body_b64}"
        return bytes(self.body_json).decode("utf-8", "replace")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    state: str
    moved: int
    skipped: int
    failed: int
    looked_at: int
    to_look_at: int
    rate: int
    eta_ms: int | None = None
    error: str | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE_STATES


class TopicCount(msgspec.Struct, frozen=True):
    topic: str | None
    count: int
    exists: bool


class DryRun(msgspec.Struct, frozen=True):
    """``is_complete`` is False when the service stopped counting before the end."""

    count: int
    is_complete: bool
    topics: list[TopicCount]
    not_found: list[str]


class TaskFailure(msgspec.Struct, frozen=True):
    id: str | None
    offset: int | None
    outcome: str


class TaskFailurePage(msgspec.Struct, frozen=True):
    failures: list[TaskFailure]
    next: int | None
    unlisted: int


class TaskOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ``dlq:redrive`` and ``dlq:purge`` take."""

    ids: list[str] | None = None
    all: bool | None = None
    filter: dict[str, str] | None = None
    target: str | None = None
    rate: int | None = None
    dry_run: bool = False
