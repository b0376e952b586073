"""Shards for the operator: ``manage.py shard ACTION``, with one of the actions below.

Prints one JSON line for each shard afterwards; ``history``: one for each change, the newest first.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from django.core.management.base import CommandError, CommandParser

from mqservice.accounts.audit_api import AuditEntryOut
from mqservice.accounts.audit_search import installation_history
from mqservice.accounts.shard_changes import (
    activate,
    add,
    ask_to_move,
    detach,
    drain,
    place,
    remove,
)
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.problem import Problem
from mqservice.shards.queries import (
    is_alive,
    is_following,
    namespace_counts,
    replicas,
    shards,
)
from mqservice.shards.services import await_move, require_detachable

_ACTIONS: Final = (
    "list",
    "add",
    "drain",
    "activate",
    "remove",
    "place",
    "move",
    "detach",
    "history",
)


class Command(ServiceCommand):
    help = "List the shards, add one, have it take no new namespaces, or remove it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=_ACTIONS)
        parser.add_argument("name", nargs="?", default="")
        parser.add_argument("--address", default="")
        parser.add_argument("--namespace", default="")
        parser.add_argument("--node", default="")
        parser.add_argument("--dry-run", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        action, name = options["action"], options["name"]
        try:
            if action == "add":
                add(name, options["address"])
            elif action == "drain":
                drain(name)
            elif action == "activate":
                activate(name)
            elif action == "remove":
                remove(name)
            elif action == "place":
                place(options["namespace"], name)
            elif action == "move":
                ask_to_move(name, options["node"])
                await_move(name, options["node"])
            elif action == "detach" and options["dry_run"]:
                require_detachable(name)
            elif action == "detach":
                detach(name)
        except Problem as exc:
            raise CommandError(exc.detail) from exc
        if action == "history":
            for entry in installation_history():
                self.stdout.write(AuditEntryOut.of(entry).model_dump_json())
            return
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
                        "is_heard": each.is_heard,
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
