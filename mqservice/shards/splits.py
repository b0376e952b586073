"""The states of a split, see ``Split``: each change is one conditional statement, or a transaction.

    begin ──▶ hold ──▶ commit ──▶ finish
      └─▶ fail  └─▶ begin_release ──▶ end_release ──▶ end_cleaning

Who orders a split calls them one after the other; whoever comes later, when that one is gone, ends
what is left (``resolve``). The database decides: of ``commit`` and ``begin_release`` only one can
happen to a hold, and no engine is told before that to serve again, or to delete anything. Until a
target has deleted what was copied, or knows that nothing of it is to be adopted, no namespace comes
to it: somebody else may have given a new one the same name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.apps import apps
from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Now
from django.utils import timezone

from mqservice.lib.durations import SECOND_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.lib.shard_liveness import SILENT_MS
from mqservice.shards.models import MOVED_STATES, Shard, ShardState, Split, SplitState
from mqservice.shards.queries import heard, is_alive, namespace_counts
from mqservice.store import (
    NamespaceDropRequest,
    NamespaceReleaseRequest,
    StoreDiscardRequest,
    blocking_client,
)

log = logging.getLogger(__name__)

# Requests wait 5 s at most, and are refused with Retry-After then. A hold that takes longer than
# this is given up: the source serves again.
HELD_MS_MAX: Final = 30 * SECOND_MS
OPEN_STATES: Final = [
    SplitState.COPYING.value,
    SplitState.HOLDING.value,
    SplitState.RELEASING.value,
    SplitState.CLEANING.value,
    SplitState.MOVED.value,
]
# Whether ``find_left`` would find something, for one look at the database each second.
ANY_LEFT: Final = f"""EXISTS (
    SELECT FROM shards_split WHERE state IN ('releasing', 'moved')
    OR (state = 'holding' AND held_until < now())
    OR (state = 'cleaning' AND target IN (
        SELECT name FROM shards_shard
        WHERE heartbeat_at IS NULL OR heartbeat_at >= now() - interval '{SILENT_MS} ms'
    ))
)"""


def check_split(source: str, target: str, namespaces: Sequence[str]) -> None:
    """Raises Problem: BAD_REQUEST, NOT_FOUND, NAMESPACE_NOT_FOUND, CONFLICT."""
    if source == target:
        raise Problem.of("BAD_REQUEST", f"{source} cannot be split into itself")
    if not namespaces:
        raise Problem.of("BAD_REQUEST", "name at least one namespace to move")
    for name in (source, target):
        shard = heard(Shard.objects.filter(name=name)).first()
        if shard is None and name != MAIN_SHARD:
            raise Problem.of("NOT_FOUND", f"there is no shard {name}")
        if shard is not None and not is_alive(shard):
            raise Problem.of("CONFLICT", f"the engine of {name} is not running")
    if count := namespace_counts().get(target):
        raise Problem.of(
            "CONFLICT",
            f"{target} has {count} namespaces: a shard is split by copying its store, which would "
            "replace theirs. Name a shard that has none",
        )
    found = dict(_namespaces().objects.filter(name__in=namespaces).values_list("name", "shard"))
    for name in namespaces:
        if name not in found:
            raise Problem.of("NAMESPACE_NOT_FOUND", f"{name} does not exist")
        if found[name] != source:
            raise Problem.of("CONFLICT", f"{name} lives in {found[name]}, not in {source}")


@transaction.atomic
def begin(source: str, target: str, namespaces: Sequence[str]) -> Split:
    """An attempt, with a number of its own; until it has ended no new namespace goes to the target.
    Continues one whose command is gone. Raises Problem, as ``check_split``.
    """
    if MAIN_SHARD in (source, target):
        Shard.objects.get_or_create(name=MAIN_SHARD)
    list(Shard.objects.select_for_update().filter(name__in=[source, target]).order_by("name"))
    check_split(source, target, namespaces)
    for other in Split.objects.select_for_update().filter(state__in=OPEN_STATES):
        if (other.source, other.target) == (source, target) and _is_copying(other):
            _end(other, SplitState.FAILED)  # its command is gone, or finds out
        elif {other.source, other.target} & {source, target} and not _is_only_cleaned(
            other, target
        ):
            raise _under_way(other)
    numbers = Split.objects.aggregate(highest=Max("number"))
    split = Split.objects.create(
        source=source,
        target=target,
        namespaces=list(namespaces),
        state=SplitState.COPYING.value,
        number=max(time.time_ns() // 1_000_000, 1 + (numbers["highest"] or 0)),
        was_active=Shard.objects.filter(name=target, state=ShardState.ACTIVE.value).exists(),
    )
    Shard.objects.filter(name=target).update(state=ShardState.DRAINING.value)
    return split


@transaction.atomic
def hold(split: Split) -> None:
    """From now on requests for the namespaces wait. Raises Problem CONFLICT: it has ended."""
    _change(split, SplitState.COPYING, SplitState.HOLDING, held_until=_in(HELD_MS_MAX))
    _of(split).update(moving_to=split.target)


@transaction.atomic
def commit(split: Split) -> None:
    """The namespaces live in the target. Raises Problem CONFLICT: it took too long, or one of them
    was deleted meanwhile.
    """
    in_time = Q(held_until__gt=Now())
    _change(split, SplitState.HOLDING, SplitState.MOVED, in_time, held_until=Now())
    moved = _of(split).filter(shard=split.source).update(shard=split.target, moving_to="")
    if moved != len(split.namespaces):
        raise Problem.of("CONFLICT", "one of the namespaces was deleted meanwhile")


def begin_release(split: Split) -> bool:
    """Whether the source is to serve the namespaces again; False: they were moved."""
    try:
        _change(split, SplitState.HOLDING, SplitState.RELEASING)
    except Problem:
        split.refresh_from_db()
    return split.state == SplitState.RELEASING.value


def is_moved(split: Split) -> bool:
    """Whether the target has the namespaces. One query."""
    split.refresh_from_db()
    return split.state in MOVED_STATES


def is_given_up(split: Split) -> bool:
    """Whether the target has answered that it has nothing of it, and will not have."""
    return split.state == SplitState.FAILED.value


@transaction.atomic
def end_release(split: Split) -> None:
    """The source serves them, if nobody has said so before."""
    releasing = Split.objects.filter(pk=split.pk, state=SplitState.RELEASING.value)
    if releasing.update(state=SplitState.CLEANING.value):
        _of(split).update(moving_to="")
    split.refresh_from_db()


@transaction.atomic
def end_cleaning(split: Split) -> None:
    """The target has nothing of them, and will not have."""
    _end(split, SplitState.FAILED)


@transaction.atomic
def fail(split: Split) -> None:
    """It ended before anything was held."""
    if _is_copying(split):
        _end(split, SplitState.FAILED)


@transaction.atomic
def end_copying(target: str, *, is_removed: bool = False) -> None:
    """Give up an attempt whose command is gone. Raises Problem CONFLICT: it is beyond that. A
    target that is removed need not be cleaned; if it comes back it is.
    """
    for split in Split.objects.select_for_update().filter(target=target, state__in=OPEN_STATES):
        if _is_copying(split):
            _end(split, SplitState.FAILED)
        elif not (is_removed and split.state == SplitState.CLEANING.value):
            raise _under_way(split)


def check_target(name: str) -> None:
    """Before a namespace comes to a shard. Raises Problem CONFLICT while another one is split into
    it, or its engine has not deleted what a split has left there.
    """
    split = Split.objects.filter(target=name, state__in=OPEN_STATES).first()
    if split is not None:
        raise _under_way(split)


def end_left(*shards: str) -> None:
    """End what earlier attempts have left of splits of these shards, before the clock does. Raises
    ``StoreError``, as ``resolve``.
    """
    for split in find_left():
        if split.source in shards or split.target in shards:
            resolve(split)


@transaction.atomic
def finish(split: Split) -> None:
    """The source has nothing of them any more."""
    _end(split, SplitState.DONE)


def find_left() -> list[Split]:
    """Those whose command is gone, or was too slow, in the order in which they began."""
    late = Q(state=SplitState.HOLDING.value, held_until__lt=Now())
    left = Q(state__in=[SplitState.RELEASING.value, SplitState.MOVED.value])
    there = heard(Shard.objects.all()).filter(Q(heartbeat_at=None) | Q(is_heard=True))
    unclean = Q(state=SplitState.CLEANING.value, target__in=there.values("name"))
    return list(Split.objects.filter(late | left | unclean).order_by("pk"))


def resolve(split: Split) -> None:
    """End what is left of it, whichever way it went; may be done twice at a time. Raises
    ``StoreError`` where one of the two does not answer: somebody tries again.
    """
    if split.state == SplitState.HOLDING.value:
        begin_release(split)  # its command may have moved them meanwhile
    if split.state == SplitState.RELEASING.value:
        with blocking_client(split.source) as client:
            client.namespace_release(NamespaceReleaseRequest(number=split.number))
        end_release(split)
        log.warning(
            "Gave up a split that took too long; the source serves its namespaces again",
            extra={"action": "split_released", "source": split.source, "target": split.target},
        )
    if split.state == SplitState.CLEANING.value:
        with blocking_client(split.target) as client:
            client.store_discard(
                StoreDiscardRequest(namespaces=split.namespaces, number=split.number)
            )
        end_cleaning(split)
    elif split.state == SplitState.MOVED.value:
        with blocking_client(split.source) as client:
            reply = client.namespace_drop(NamespaceDropRequest(number=split.number))
        finish(split)
        log.info(
            "A shard was split",
            extra={
                "action": "shard_split",
                "source": split.source,
                "target": split.target,
                "topic_count": reply.topic_count,
                "group_count": reply.group_count,
            },
        )


def _under_way(split: Split) -> Problem:
    if split.state == SplitState.CLEANING.value:
        return Problem.of(
            "CONFLICT",
            f"the engine of {split.target} is to delete what a split of {split.source} has left "
            "there; try again when it has",
        )
    return Problem.of("CONFLICT", f"the split of {split} is under way; try again when it has ended")


def _is_only_cleaned(split: Split, target: str) -> bool:
    """Whether nothing but its target, another one than this, is left to be cleaned."""
    return split.state == SplitState.CLEANING.value and split.target != target


def _is_copying(split: Split) -> bool:
    return split.state == SplitState.COPYING.value


def _change(split: Split, before: SplitState, after: SplitState, *also: Q, **more: object) -> None:
    """Raises Problem CONFLICT where it is in another state."""
    found = Split.objects.filter(*also, pk=split.pk, state=before.value)
    if not found.update(state=after.value, **more):
        raise Problem.of("CONFLICT", f"the split of {split} has ended, or took too long")
    split.state = after.value


def _end(split: Split, state: SplitState) -> None:
    found = Split.objects.filter(pk=split.pk, state__in=OPEN_STATES)
    if found.update(state=state.value, ended_at=timezone.now()):
        split.state = state.value
        _reopen(split)


def _reopen(split: Split) -> None:
    if split.was_active:
        Shard.objects.filter(name=split.target).update(state=ShardState.ACTIVE.value)


def _in(wait_ms: int) -> Any:  # Any: an expression of the database's clock
    return Now() + timedelta(milliseconds=wait_ms)


def _namespaces() -> Any:  # Any: of an app that imports this one
    return apps.get_model("accounts.Namespace")


def _of(split: Split) -> Any:  # Any: as above
    return _namespaces().objects.filter(name__in=split.namespaces)
