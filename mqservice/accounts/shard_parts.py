"""Makes the store of a new shard of a part of a running one, by ``storage_engine.tools.split``.

    plan_copy ───────────────────────▶ CopyPlan       before anything is done
    [PartProgram] ── copy, copy, … ──▶ RoundDone      while the source serves
         ├────────── finish ─────────▶ PartDone       once the namespaces are held
         └────────── discard                          if it came to nothing

Both engines run on this machine. The service runs the engine's program; of its code it shares the
lines that both exchange.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from django.apps import apps
from django.conf import settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.lib.replicated_log import engine_log_env
from mqservice.lib.units import size
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.engine_program import EngineProgram
from storage_engine.tools.program_lines import ProgressLine
from storage_engine.tools.split.protocol_lines import (
    CopyPlan,
    CopyRound,
    Discard,
    Finish,
    PartDone,
    RoundDone,
)

_MODULE: Final = "storage_engine.tools.split"
_LINES: Final = msgspec.json.Decoder(RoundDone | PartDone | ProgressLine)


class LocalShard(NamedTuple):
    """An engine of this machine."""

    name: str
    store: Path
    socket: Path


def local_shard(name: str) -> LocalShard:
    """Raises Problem CONFLICT: this machine does not run its engine, or has only a replica."""
    shard = _place_of(name)
    if not _is_served(shard.socket) or not shard.store.is_dir():
        raise Problem.of("CONFLICT", _why_elsewhere(name))
    return shard


def local_replica(name: str) -> LocalShard:
    """Of a shard that another machine serves. Raises Problem CONFLICT: this machine has none."""
    shard = _place_of(name)
    if not shard.store.is_dir():
        raise Problem.of(
            "CONFLICT",
            f"this machine has no replica of {name}, and the copy is made here: name {name} in its "
            "MQ_SHARDS or MQ_STANDBY",
        )
    return shard


def _place_of(name: str) -> LocalShard:
    if name == MAIN_SHARD:
        store, engine = settings.MQ_ENGINE_STORE_DIR, Path(settings.MQ_ENGINE_SOCKET)
        return LocalShard(name, store, engine)
    data_dir = DataDir(Path(settings.MQ_DATA_DIR))
    return LocalShard(name, data_dir.shards / name / "store", data_dir.socket_of(name))


def _is_served(path: Path) -> bool:
    """Whether an engine listens there: one that was killed leaves its socket, and a replica of its
    shard may run since.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return False
    return True


def _why_elsewhere(name: str) -> str:
    if not settings.MQ_REPLICATED_LOG:
        return (
            f"the engine of {name} does not run on this machine: a shard is split where both "
            "engines run, with MQ_SHARDS naming both"
        )
    shards: Any = apps.get_model("shards.Shard")  # Any: the program here needs no Django
    owner = shards.objects.filter(name=name).values_list("owner", flat=True).first()
    return (
        f"this machine does not serve {name}; its owner is {owner or 'nobody'}. Run the command "
        "there: a shard is split on the machine that serves it"
    )


@contextlib.contextmanager
def sole_copy_into(target: LocalShard) -> Iterator[None]:
    """Raises Problem CONFLICT while another command has it. Whoever dies has it no more."""
    descriptor = os.open(target.store, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem.of(
                "CONFLICT",
                f"another command splits a shard into {target.name}; try again when it has ended",
            ) from None
        yield
    finally:
        os.close(descriptor)


class CopyRoom(NamedTuple):
    """Of the target's disk. ``fetched_bytes``: of ``copied_bytes``, what only the bucket has."""

    copied_bytes: int
    fetched_bytes: int
    free_bytes: int


def plan_copy(source: LocalShard, target: LocalShard) -> CopyRoom:
    """What a copy of the source's store takes. Changes nothing. Raises Problem CONFLICT: there is
    too little room.
    """
    with EngineProgram[CopyPlan](
        _MODULE,
        [*_places(source, target), "--plan"],
        env=os.environ,
        lines=msgspec.json.Decoder(CopyPlan | ProgressLine),
        on_progress=lambda done, total: None,
        error=lambda _code, words: Problem.of("CONFLICT", f"could not look at the store: {words}"),
    ) as program:
        plan = program.expect(CopyPlan)
        program.end()
    if not plan.has_room:
        fetched = f", with {size(plan.fetched_bytes)} that only the bucket has"
        raise Problem.of(
            "CONFLICT",
            f"all of {source.name}'s store is copied first"
            f"{fetched if plan.fetched_bytes else ''}, which needs {size(plan.needed_bytes)}, but "
            f"the disk of {target.name} has only {size(plan.free_bytes)} free",
        )
    return CopyRoom(plan.copied_bytes, plan.fetched_bytes, plan.free_bytes)


def _places(source: LocalShard, target: LocalShard) -> list[str]:
    return [
        str(source.store), str(target.store), f"--socket={source.socket}", f"--shard={target.name}",
    ]  # fmt: skip


class PartProgram(EngineProgram[RoundDone | PartDone]):
    """See the module's docstring. All raise Problem CONFLICT with the program's last words."""

    def __init__(
        self,
        source: LocalShard,
        target: LocalShard,
        namespaces: Sequence[str],
        number: int,
        *,
        last_number: int,
        say: Callable[[int, int], None],
    ) -> None:
        """
        Args:
            number: of this attempt.
            last_number: of the split that the target's store came from, asked for since the attempt
                began; 0: of none. What attempts in between have uploaded is deleted.
            say: called with the bytes of the log that a round has copied, and has to copy.
        """
        super().__init__(
            _MODULE,
            [
                *_places(source, target), f"--number={number}", f"--after={last_number}",
                *[f"--namespace={name}" for name in namespaces],
            ],
            env={**os.environ, **engine_log_env(os.environ)},
            lines=_LINES,
            on_progress=say,
            error=lambda _code, words: Problem.of(
                "CONFLICT", f"could not copy the store: {words}"
            ),
        )  # fmt: skip

    def copy(self) -> RoundDone:
        """Another round."""
        self.send(CopyRound())
        return self.expect(RoundDone)

    def finish(self) -> PartDone:
        """The last round; the store is ready on return."""
        self.send(Finish())
        return self.expect(PartDone)

    def discard(self, *, is_in_log: bool) -> None:
        """Have no copy on the disk; nor in the bucket, unless the target's log may say that the
        shard began with it, ``is_in_log``. Its engine has answered that it does not begin with it
        any more. A program that has failed has deleted both by itself.
        """
        with contextlib.suppress(Problem):
            self.send(Discard(is_in_log=is_in_log))
            self.end()
