"""The list of what needs attention on the wire of the control plane."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from ninja import Schema

from mqservice.attention.items import (
    ITEMS_OF_GROUPS,
    Action,
    ActionName,
    AttentionItem,
    AttentionKind,
)
from mqservice.lib.timestamps import rfc3339

_OF_QUOTA: Final = frozenset({AttentionKind.QUOTA_FULL, AttentionKind.QUOTA_HIGH})


class AttentionActionOut(Schema):
    """The operation that does it; `body` is null for one without, and an example for `mute`."""

    name: ActionName
    method: str
    path: str
    body: dict[str, Any] | None = None  # reason: of the operation at `path`

    @classmethod
    def of(cls, namespace: str, item: AttentionItem, action: Action) -> AttentionActionOut:
        name, root = action.name, f"/v1/ns/{namespace}"
        target = quote(action.target, safe="")
        if name is ActionName.INSPECT:
            return cls(name=name, method="GET", path=_inspected(root, item, target))
        if name is ActionName.ACKNOWLEDGE:
            return cls(name=name, method="POST", path=f"{root}/issues/{target}:acknowledge")
        if name is ActionName.MUTE:
            path = f"{root}/alerts/{target}:mute"
            return cls(name=name, method="POST", path=path, body={"for": "1h"})
        path = f"{root}/groups/{quote(item.name, safe='')}/dlq:redrive"
        body = {"filter": {"reason": action.target}}
        return cls(name=name, method="POST", path=path, body=body)


def _inspected(root: str, item: AttentionItem, target: str) -> str:
    name = quote(item.name, safe="")
    if item.kind is AttentionKind.DEAD_LETTERS:
        return f"{root}/issues/{target}"
    if item.kind in ITEMS_OF_GROUPS:
        return f"{root}/groups/{name}/lag"
    if item.kind is AttentionKind.SCHEDULE_FAILING:
        return f"{root}/schedules/{name}"
    return "/v1/quotas" if item.kind in _OF_QUOTA else f"{root}/alerts/{name}"


class AttentionItemOut(Schema):
    """`name`: of the group, alert, schedule or limit that `kind` is about. `alerts` fire for the
    same group. `trend`: lag of the last 60 minutes or dead letters of the last 24 hours up to now,
    null where nothing was measured."""

    kind: AttentionKind
    name: str
    cause: str
    since: str | None
    trend: list[int | None]
    alerts: list[str]
    actions: list[AttentionActionOut]

    @classmethod
    def of(cls, namespace: str, item: AttentionItem) -> AttentionItemOut:
        return cls(
            kind=item.kind,
            name=item.name,
            cause=item.cause,
            since=None if item.since_ms is None else rfc3339(item.since_ms),
            trend=list(item.trend),
            alerts=list(item.alerts),
            actions=[AttentionActionOut.of(namespace, item, action) for action in item.actions],
        )


class AttentionOut(Schema):
    """The most urgent first."""

    items: list[AttentionItemOut]
