"""Adds shards, has them take no more namespaces, and removes those that have none."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db import IntegrityError, transaction

from mqservice.lib.names import MAIN_SHARD, name_fault
from mqservice.lib.problem import Problem
from mqservice.shards.models import Shard, ShardState
from mqservice.shards.queries import forget_shard_names, namespace_counts


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


def set_state(name: str, state: ShardState) -> None:
    """Have a shard take new namespaces, or no more. Raises Problem NOT_FOUND."""
    if name == MAIN_SHARD:
        Shard.objects.get_or_create(name=name)
    if not Shard.objects.filter(name=name).update(state=state.value):
        raise _not_found(name)


@transaction.atomic
def remove_shard(name: str) -> None:
    """Forget a drained shard that no namespace lives in; its store stays on its disk.

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
    shard.delete()
    forget_shard_names()


@transaction.atomic
def place_namespace(namespace: str, shard: str) -> None:
    """Have a namespace that has nothing yet live in a shard that is named.

    Raises Problem: NOT_FOUND, NAMESPACE_NOT_FOUND, or CONFLICT once it has topics or groups.
    """
    if shard != MAIN_SHARD and not Shard.objects.filter(name=shard).exists():
        raise _not_found(shard)
    namespaces: Any = apps.get_model("accounts.Namespace")  # Any: of an app that imports this one
    found = namespaces.objects.select_for_update().filter(name=namespace).first()
    if found is None:
        raise Problem.of("NAMESPACE_NOT_FOUND", f"{namespace} does not exist")
    if found.shard == shard:
        return
    if found.topics.exists() or found.groups.exists():
        raise Problem.of("CONFLICT", f"{namespace} has topics or groups in {found.shard}")
    found.shard = shard
    found.save(update_fields=["shard"])


def _not_found(name: str) -> Problem:
    return Problem.of("NOT_FOUND", f"there is no shard {name}")
