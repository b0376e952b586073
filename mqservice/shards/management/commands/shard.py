"""Shards for the operator: ``manage.py shard list|add|drain|activate|remove|place|move``.

Prints one JSON line for each shard afterwards.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mqservice.lib.problem import Problem
from mqservice.shards.models import ShardState
from mqservice.shards.queries import (
    is_alive,
    is_following,
    namespace_counts,
    replicas,
    shards,
)
from mqservice.shards.services import (
    add_shard,
    await_move,
    place_namespace,
    remove_shard,
    set_state,
    start_move,
)

_ACTIONS: Final = ("list", "add", "drain", "activate", "remove", "place", "move")


class Command(BaseCommand):
    help = "List the shards, add one, have it take no new namespaces, or remove it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=_ACTIONS)
        parser.add_argument("name", nargs="?", default="")
        parser.add_argument("--address", default="")
        parser.add_argument("--namespace", default="")
        parser.add_argument("--node", default="")

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        action, name = options["action"], options["name"]
        try:
            if action == "add":
                add_shard(name, options["address"])
            elif action == "drain":
                set_state(name, ShardState.DRAINING)
            elif action == "activate":
                set_state(name, ShardState.ACTIVE)
            elif action == "remove":
                remove_shard(name)
            elif action == "place":
                place_namespace(options["namespace"], name)
            elif action == "move":
                start_move(name, options["node"])
                await_move(name, options["node"])
        except Problem as exc:
            raise CommandError(exc.detail) from exc
        counts, following = namespace_counts(), replicas()
        for shard in shards():
            row = {
                "name": shard.name,
                "state": shard.state,
                "is_alive": is_alive(shard),
                "address": shard.address,
                "owner": shard.owner,
                "epoch": shard.epoch,
                "move_to": shard.move_to,
                "replicas": [
                    {
                        "node": each.node,
                        "is_following": is_following(each),
                        "lag_bytes": each.lag_bytes,
                        "behind_ms": each.behind_ms,
                        "heartbeat_at": each.heartbeat_at,
                    }
                    for each in following.get(shard.name, [])
                ],
                "namespaces": counts.get(shard.name, 0),
                "free_bytes": shard.free_bytes,
                "heartbeat_at": shard.heartbeat_at,
            }
            self.stdout.write(msgspec.json.encode(row).decode())
