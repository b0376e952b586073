"""What operators do to shards, audited: the change and its row in one transaction.

    manage.py shard ──▶ [add, drain, …] ──▶ shards.services, audit of the installation

The row of a takeover or a move that was done is written by the node that has the shard then, with
``mq_audit_takeover`` of the database.
"""

from __future__ import annotations

from django.db import transaction

from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.shards import splits
from mqservice.shards.models import ShardState, Split
from mqservice.shards.services import (
    add_shard,
    forget_log,
    place_namespace,
    remove_shard,
    require_detachable,
    set_state,
    start_move,
)


@transaction.atomic
def add(name: str, address: str) -> None:
    """Raises Problem, as ``add_shard`` does; the others here likewise."""
    add_shard(name, address)
    record(None, None, "shard.add", _target(name), after={"address": address})


@transaction.atomic
def drain(name: str) -> None:
    if set_state(name, ShardState.DRAINING):
        record(None, None, "shard.drain", _target(name))


@transaction.atomic
def activate(name: str) -> None:
    if set_state(name, ShardState.ACTIVE):
        record(None, None, "shard.activate", _target(name))


@transaction.atomic
def remove(name: str) -> None:
    shard = remove_shard(name)
    before = {"address": shard.address, "node": shard.owner}
    record(None, None, "shard.remove", _target(name), before=before)


@transaction.atomic
def detach(name: str) -> None:
    """It has left its replicated log, as operators and the tenants in it read."""
    require_detachable(name)
    record(None, None, "shard.detach", _target(name))
    for namespace, topic_count in forget_log(name).items():
        record(
            None,
            Namespace.objects.get(pk=namespace),
            "shard.detach",
            _target(name),
            {"topics": topic_count},
            before={"durability": "replicated"},
            after={"durability": "sync"},
        )


@transaction.atomic
def ask_to_move(name: str, node: str) -> None:
    previous = start_move(name, node)
    record(None, None, "shard.move", _target(name), before={"node": previous}, after={"node": node})


@transaction.atomic
def place(namespace: str, shard: str) -> None:
    previous = place_namespace(namespace, shard)
    if previous != shard:
        record(
            None,
            Namespace.objects.get(name=namespace),
            "namespace.place",
            f"namespaces/{namespace}",
            before={"shard": previous},
            after={"shard": shard},
        )


@transaction.atomic
def commit_split(split: Split) -> None:
    """Its namespaces live in the target, as operators and each tenant read. Raises Problem."""
    splits.commit(split)
    record(
        None,
        None,
        "shard.split",
        _target(split.source),
        {"namespaces": split.namespaces},
        after={"shard": split.target},
    )
    for namespace in Namespace.objects.filter(name__in=split.namespaces):
        record(
            None,
            namespace,
            "namespace.place",
            f"namespaces/{namespace.name}",
            before={"shard": split.source},
            after={"shard": split.target},
        )


def _target(name: str) -> str:
    return f"shards/{name}"
