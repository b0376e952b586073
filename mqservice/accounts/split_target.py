"""Has the target of a split on the machine that serves its source, and gives it back afterwards.

    target's node ── move ──▶ source's node ── split ──▶ source's node ── move ──▶ target's node
                                                                │ waits until that node
                                                                └ has fetched what was split off

Only with a replicated log. The target has no namespaces before, so that nobody notices the first
move; by the second, requests wait for a second or so.
"""

from __future__ import annotations

import time
from typing import Final

from django.conf import settings

from mqservice.accounts.shard_changes import ask_to_move
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.problem import Problem
from mqservice.shards.models import Shard
from mqservice.shards.queries import is_following, replicas
from mqservice.shards.services import MOVE_MS_MAX, await_move

_LOOK_S: Final = 0.2


def node_elsewhere(source: str, target: str) -> str:
    """The node that serves the target, where another one serves the source; else empty, and
    without a replicated log.
    """
    if not settings.MQ_REPLICATED_LOG:
        return ""
    owners = dict(Shard.objects.filter(name__in=[source, target]).values_list("name", "owner"))
    here, node = owners.get(source, ""), owners.get(target, "")
    return node if here and node != here else ""


def bring(source: str, target: str) -> None:
    """Have the node of the source serve the target. Raises Problem, as ``ask_to_move``,
    ``await_move``.
    """
    _move(target, Shard.objects.get(name=source).owner)


def give_back(target: str, node: str) -> None:
    """Have a node serve the target that served it before, once it has all of it; that may take as
    long as fetching it does. Raises Problem CONFLICT: the node is gone, or did not take it.
    """
    heard_s = time.monotonic()
    while True:
        replica = next((each for each in replicas().get(target, []) if each.node == node), None)
        if replica is not None and is_following(replica):
            break
        if replica is not None and replica.is_heard:
            heard_s = time.monotonic()
        elif time.monotonic() - heard_s > MOVE_MS_MAX / SECOND_MS:
            raise Problem.of("CONFLICT", f"{node} is not running, or has no replica of {target}")
        time.sleep(_LOOK_S)
    _move(target, node)


def _move(name: str, node: str) -> None:
    ask_to_move(name, node)
    await_move(name, node)
