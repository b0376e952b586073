"""Adds shards, has them take no more namespaces or another node, and removes those without any."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from django.apps import apps
from django.db import IntegrityError, transaction
from django.db.models import Count, F
from django.utils import timezone

from mqservice.lib.durations import SECOND_MS
from mqservice.lib.names import MAIN_SHARD, name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.shard_liveness import SILENT_MS
from mqservice.protocol.choices import Durability
from mqservice.shards.models import Replica, Shard, ShardState
from mqservice.shards.queries import (
    forget_shard_names,
    heard,
    is_alive,
    is_following,
    namespace_counts,
    replicas,
)
from mqservice.shards.splits import check_target, end_copying

log = logging.getLogger(__name__)

MOVE_MS_MAX: Final = 30 * SECOND_MS
_LOOK_MS: Final = 50


def add_shard(name: str, address: str) -> Shard:
    """Raises Problem: BAD_REQUEST for a name that is none, CONFLICT for one that is there."""
    if fault := name_fault(name):
        raise Problem.of("BAD_REQUEST", fault)
    try:
        with transaction.atomic():
            shard = Shard.objects.create(name=name, address=address)
    except IntegrityError:
        raise Problem.of("CONFLICT", f"the shard {name} exists already") from None
    forget_shard_names()
    return shard


def set_state(name: str, state: ShardState) -> bool:
    """Have a shard take new namespaces, or no more; whether that is a change. Raises Problem
    NOT_FOUND, CONFLICT while another one is split into it.
    """
    if name == MAIN_SHARD:
        Shard.objects.get_or_create(name=name)
    if state is ShardState.ACTIVE:
        end_copying(name)
    found = Shard.objects.filter(name=name)
    is_changed = found.exclude(state=state.value).update(state=state.value) > 0
    if not is_changed and not found.exists():
        raise _not_found(name)
    return is_changed


@transaction.atomic
def remove_shard(name: str) -> Shard:
    """Forget a drained shard that no namespace lives in; its store stays on its disk. What it was.

    Raises Problem: NOT_FOUND, CONFLICT while it has namespaces or takes some, and for the main
    shard.
    """
    if name == MAIN_SHARD:
        raise Problem.of("CONFLICT", "the main shard cannot be removed")
    shard = Shard.objects.select_for_update().filter(name=name).first()
    if shard is None:
        raise _not_found(name)
    if shard.state != ShardState.DRAINING.value:
        raise Problem.of("CONFLICT", f"{name} takes new namespaces: drain it first")
    if count := namespace_counts().get(name):
        raise Problem.of("CONFLICT", f"{name} still has {count} namespaces")
    end_copying(name, is_removed=True)
    shard.delete()
    forget_shard_names()
    return shard


def require_detachable(name: str) -> None:
    """Raises Problem: NOT_FOUND, or CONFLICT while a node has the shard or a replica of it, since
    its engine would be started again and again.
    """
    shard = heard(Shard.objects.filter(name=name)).first()
    if shard is None:
        if name != MAIN_SHARD:
            raise _not_found(name)
        return
    nodes = {shard.owner} if shard.owner and shard.is_heard else set()
    nodes |= {each.node for each in replicas().get(name, []) if each.is_heard}
    if nodes:
        raise Problem.of(
            "CONFLICT",
            f"{', '.join(sorted(nodes))} has {name} or a replica of it: stop it, or take {name} "
            f"out of its MQ_SHARDS and MQ_STANDBY, wait {SILENT_MS // SECOND_MS} s and try again",
        )


def forget_log(name: str) -> dict[int, int]:
    """The shard has no replicated log any more: nobody owns it until an engine says so, and topics
    are ``sync``. How many of them changed, by namespace. In a transaction.
    """
    Shard.objects.filter(name=name).update(
        owner="", address="", heartbeat_at=None, move_to="", log_end=0
    )
    Replica.objects.filter(shard=name).delete()
    topics: Any = apps.get_model("topics.Topic")  # Any: of an app that imports this one
    found = topics.objects.filter(namespace__shard=name, durability=Durability.REPLICATED.value)
    counts: dict[int, int] = dict(
        found.values("namespace").annotate(count=Count("pk")).values_list("namespace", "count")
    )
    found.update(
        durability=Durability.SYNC.value, revision=F("revision") + 1, updated_at=timezone.now()
    )
    return counts


def start_move(name: str, node: str) -> str:
    """Have a shard handed over to a node that has a replica of it; ``await_move`` tells how it
    went. The node that owns it.

    Raises Problem: NOT_FOUND, CONFLICT where nobody owns it, the node does already, or could not.
    """
    shard = heard(Shard.objects.filter(name=name)).first()
    if shard is None:
        raise _not_found(name)
    if not shard.owner or not is_alive(shard):
        raise Problem.of("CONFLICT", f"no node owns {name} now, so that none can hand it over")
    if shard.owner == node:
        raise Problem.of("CONFLICT", f"{node} owns {name} already")
    following = [each.node for each in replicas().get(name, []) if is_following(each)]
    if node not in following:
        able = ", ".join(following) or "none"
        raise Problem.of(
            "CONFLICT",
            f"{node} has no replica of {name} that is up to date; nodes that have one: {able}",
        )
    Shard.objects.filter(name=name, owner=shard.owner).update(move_to=node)
    log.info(
        "A shard is to be handed over",
        extra={"action": "shard_move", "shard": name, "owner": shard.owner, "node": node},
    )
    return shard.owner


def await_move(name: str, node: str, pause: Callable[[float], object] = time.sleep) -> None:
    """Returns once the node serves the shard.

    Raises Problem CONFLICT: its owner kept it, or the node has not taken it within half a minute.
    """
    for _ in range(MOVE_MS_MAX // _LOOK_MS):
        shard = Shard.objects.get(name=name)
        if not shard.move_to:
            if shard.owner == node:
                return
            raise Problem.of("CONFLICT", f"{shard.owner} kept {name}; its log file says why")
        pause(_LOOK_MS / SECOND_MS)
    Shard.objects.filter(name=name).update(move_to="")
    raise Problem.of("CONFLICT", f"{node} has not taken {name} within {MOVE_MS_MAX // SECOND_MS} s")


@transaction.atomic
def place_namespace(namespace: str, shard: str) -> str:
    """Have a namespace that has nothing yet live in a shard that is named. Where it lived.

    Raises Problem: NOT_FOUND, NAMESPACE_NOT_FOUND, or CONFLICT once it has topics or groups.
    """
    known = Shard.objects.select_for_update(no_key=True).filter(name=shard)  # a split waits
    if shard != MAIN_SHARD and not known.exists():
        raise _not_found(shard)
    check_target(shard)
    namespaces: Any = apps.get_model("accounts.Namespace")  # Any: of an app that imports this one
    found = namespaces.objects.select_for_update().filter(name=namespace).first()
    if found is None:
        raise Problem.of("NAMESPACE_NOT_FOUND", f"{namespace} does not exist")
    previous = str(found.shard)
    if previous == shard:
        return previous
    if found.topics.exists() or found.groups.exists():
        raise Problem.of("CONFLICT", f"{namespace} has topics or groups in {found.shard}")
    found.shard = shard
    found.save(update_fields=["shard"])
    return previous


def _not_found(name: str) -> Problem:
    return Problem.of("NOT_FOUND", f"there is no shard {name}")
