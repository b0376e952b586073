"""Splits a shard: ``manage.py split_shard SOURCE TARGET --namespace NAME …``.

Prints JSON lines: what moves, how the copy proceeds, and how it ended.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from mqservice.accounts.shard_changes import ask_to_move
from mqservice.accounts.shard_split import plan_split, split_shard
from mqservice.accounts.split_target import bring, give_back, node_elsewhere
from mqservice.errors import problem_from_store
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.problem import Problem
from mqservice.shards.split_lines import SplitLine, SplitProgress, SplitReturn
from mqservice.store import StoreError


class Command(ServiceCommand):
    help = "Move namespaces of a shard, with everything they have, into an empty one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source")
        parser.add_argument("target")
        parser.add_argument("--namespace", action="append", default=[])
        parser.add_argument("--dry-run", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        source, target = options["source"], options["target"]
        namespaces = list(dict.fromkeys(options["namespace"]))
        try:
            if options["dry_run"]:
                self._say(plan_split(source, target, namespaces))
            else:
                self._split(source, target, namespaces)
        except Problem as exc:
            raise CommandError(exc.detail) from exc
        except StoreError as exc:
            raise CommandError(f"{problem_from_store(exc).detail}: {exc}") from exc
        except OSError as exc:
            raise CommandError(str(exc)) from exc

    def _split(self, source: str, target: str, namespaces: list[str]) -> None:
        node = node_elsewhere(source, target)
        if node:
            plan_split(source, target, namespaces)  # or refuse, before anything is moved
            bring(source, target)
        try:
            self._say(split_shard(source, target, namespaces, say=self._say_progress))
        except BaseException:
            if node:
                with contextlib.suppress(Problem, DatabaseError):
                    ask_to_move(target, node)
            raise
        if node:
            self._return(target, node)

    def _return(self, target: str, node: str) -> None:
        self._say(SplitReturn(node=node, is_done=False))
        try:
            give_back(target, node)
        except Problem as exc:
            raise CommandError(
                f"the namespaces live in {target} now, but this machine serves it still: "
                f"{exc.detail}. Hand it over later, with `mqservice shard move {target} {node}`"
            ) from exc
        self._say(SplitReturn(node=node, is_done=True))

    def _say(self, line: SplitLine) -> None:
        self.stdout.write(msgspec.json.encode(line).decode())
        self.stdout.flush()

    def _say_progress(self, done_bytes: int, total_bytes: int) -> None:
        self._say(SplitProgress(done_bytes=done_bytes, total_bytes=total_bytes))
