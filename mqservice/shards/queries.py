"""Questions about shards: which there are, where they answer, which one has most room."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Final, TypeVar

from django.apps import apps
from django.db import DatabaseError, InterfaceError
from django.db.models import (
    BooleanField,
    Count,
    DateTimeField,
    DurationField,
    Exists,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
)
from django.db.models.functions import Now

from mqservice.lib.durations import SECOND_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.lib.shard_liveness import BEHIND_MS_MAX, HEARTBEAT_MS, SILENT_MS
from mqservice.shards.models import ENDED_STATES, MOVED_STATES, Replica, Shard, ShardState, Split

_RowT = TypeVar("_RowT", Shard, Replica)

GIB: Final = 1024**3
_NAMES_CACHED_MS: Final = 10 * SECOND_MS

_names: tuple[int, list[str]] | None = None


def heard(rows: QuerySet[_RowT]) -> QuerySet[_RowT]:
    """Shards or replicas that know whether they were heard of lately: by the clock of the database,
    which their heartbeats have. That of this machine may be wrong.
    """
    since = Now() - timedelta(milliseconds=SILENT_MS)
    is_heard = ExpressionWrapper(Q(heartbeat_at__gte=since), output_field=BooleanField())
    return rows.annotate(is_heard=is_heard)  # type: ignore[no-redef]  # as the models declare it


def shards() -> list[Shard]:
    """All of them, the main one first; one query."""
    found = {shard.name: shard for shard in heard(Shard.objects.order_by("name"))}
    return [found.pop(MAIN_SHARD, Shard(name=MAIN_SHARD)), *found.values()]


def shard_names() -> list[str]:
    """The same by name, for those who ask every second: one query in ten seconds. While PostgreSQL
    is away, those that were there last.
    """
    global _names
    now_ms = time.monotonic_ns() // 1_000_000
    if _names is None or now_ms - _names[0] >= _NAMES_CACHED_MS:
        try:
            _names = now_ms, [shard.name for shard in shards()]
        except (DatabaseError, InterfaceError):
            return known_shard_names()
    return _names[1]


def known_shard_names() -> list[str]:
    """Those that this process heard of last; no query."""
    return [MAIN_SHARD] if _names is None else _names[1]


def forget_shard_names() -> None:
    """They have changed."""
    global _names
    _names = None


def find_address(name: str) -> str:
    """Where a shard answers; empty when its node has not said. One query."""
    return Shard.objects.filter(name=name).values_list("address", flat=True).first() or ""


def is_alive(shard: Shard) -> bool:
    """Whether its node has been heard of lately, of one that ``heard`` has asked for. Nobody speaks
    for the main shard of an installation that names no shards.
    """
    if shard.heartbeat_at is None:
        return shard.name == MAIN_SHARD
    return shard.is_heard


def replicas() -> dict[str, list[Replica]]:
    """Of each shard that has some, with their shard. One query."""
    found: dict[str, list[Replica]] = {}
    rows = heard(Replica.objects.select_related("shard").order_by("shard", "node"))
    lacking = Exists(_splits_it_may_lack())
    for replica in rows.annotate(is_anew=lacking):  # type: ignore[no-redef]  # as the model says
        found.setdefault(replica.shard_id, []).append(replica)
    return found


def _splits_it_may_lack() -> QuerySet[Split]:
    """Those that a replica's shard began anew with since the replica was last at the end of the
    log. A heartbeat counts as older by as much as there is between two: it may be written a while
    after it was true.
    """
    behind = ExpressionWrapper(
        (OuterRef("behind_ms") + HEARTBEAT_MS) * timedelta(milliseconds=1),
        output_field=DurationField(),
    )
    return Split.objects.filter(
        target=OuterRef("shard"),
        state__in=MOVED_STATES,
        held_until__gte=ExpressionWrapper(
            OuterRef("heartbeat_at") - behind, output_field=DateTimeField()
        ),
    )


def is_following(replica: Replica) -> bool:
    """Whether it could take over: it was heard of lately, and at the end of the log lately, with
    what a split has made of the shard; of one of ``replicas``.
    """
    is_behind = replica.is_anew or not 0 <= replica.behind_ms <= BEHIND_MS_MAX
    return replica.is_heard and not is_behind


def namespace_counts() -> dict[str, int]:
    """How many namespaces each shard has, if it has any. One query."""
    namespaces: Any = apps.get_model("accounts.Namespace")  # Any: of an app that imports this one
    rows = namespaces.objects.values("shard").annotate(count=Count("pk"))
    return dict(rows.values_list("shard", "count"))


def shard_of_new_namespace() -> str:
    """The active shard with most free disk, to the GiB, and of several on one disk the one with the
    fewest namespaces; one whose node is silent only where no other is left, and none into which
    another one is split. It stays active until the end of the transaction. Four queries, one where
    there is only the main shard.
    """
    while len(found := shards()) > 1:
        open_splits = Split.objects.exclude(state__in=ENDED_STATES)
        targets = set(open_splits.values_list("target", flat=True))
        active = [
            shard
            for shard in found
            if shard.state == ShardState.ACTIVE.value and shard.name not in targets
        ]
        counts = namespace_counts()
        best = min(
            [shard for shard in active if is_alive(shard)] or active,
            key=lambda shard: (
                -((shard.free_bytes or 0) // GIB),
                counts.get(shard.name, 0),
                shard.name != MAIN_SHARD,
                shard.name,
            ),
            default=None,
        )
        if best is None:
            raise Problem.of("STORAGE_BUSY", "no shard takes new namespaces; activate one first")
        if best._state.adding:  # the main one, of which there is no row to lock
            return best.name
        held = Shard.objects.select_for_update(no_key=True)
        if held.filter(name=best.name, state=best.state).exists():
            return best.name
    return MAIN_SHARD
