"""Namespaces that go to another shard, and those that went: ``config/namespaceHolds.json``.

    hold ──▶ held ── drop ──▶ moved ── ten minutes ──▶ forgotten
               └── release ──▶ served as before

While one is here, nothing that names a topic or group of it is done or read: every request gets
``NamespaceMoved``. It is on the disk before the engine says so, and counts for the next run too. No
web process believes for ten minutes what was true before the move: afterwards a new namespace may
have the name. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS, StoreConfig
from storage_engine.disk import config_json
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, NAMESPACE_HOLDS_FILE
from storage_engine.errors import BadRequest, NamespaceMoved
from storage_engine.records.topic_names import namespace_of

MOVED_MS: Final = 600 * SECOND_MS  # caches of routes use nothing that is older than half of it


class _Hold(msgspec.Struct, frozen=True):
    """``movedMs``: when it was gone for good; 0: it may be released."""

    number: int
    movedMs: int = 0


class _File(msgspec.Struct):
    releasedNumber: int = 0
    held: dict[str, _Hold] = {}


class NamespaceHolds:
    """See the module's docstring. False while there are none."""

    def __init__(self, config: StoreConfig, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._path = config.store_path / CONFIG_DIR / NAMESPACE_HOLDS_FILE
        self._released_number = 0
        self._held: dict[str, _Hold] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def load(self) -> None:
        """Raises ``StoreCorrupt``."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return
        file = config_json.decode(content, _File, self._path)
        self._released_number, self._held = file.releasedNumber, file.held

    @property
    def numbers(self) -> dict[str, int]:
        """Of the hold of each namespace that is refused."""
        now_ms = self._clock.now_ms()
        return {name: hold.number for name, hold in self._held.items() if not _is_old(hold, now_ms)}

    def namespaces_of(self, number: int) -> frozenset[str]:
        """Those that the hold of this number refuses."""
        return frozenset(name for name, hold in self._held.items() if hold.number == number)

    def refusal_of(self, name: str) -> NamespaceMoved | None:
        """Why nothing is done with a topic or group of this full name; None: it is."""
        namespace = namespace_of(name)
        hold = self._held.get(namespace)
        if hold is None or _is_old(hold, self._clock.now_ms()):
            return None
        return NamespaceMoved(f"the namespace {namespace} goes to another shard, or went there")

    def hold(self, namespaces: Collection[str], number: int) -> None:
        """Durable on return. Raises ``BadRequest``: the attempt is over; ``DiskFull``."""
        if number <= self._released_number:
            raise BadRequest(
                f"hold {number} comes too late: those up to {self._released_number} were released"
            )
        held = {**self._held, **dict.fromkeys(namespaces, _Hold(number))}
        self._save(self._released_number, held)

    def release(self, number: int) -> frozenset[str]:
        """The namespaces that are served again; durable on return. Raises ``DiskFull``."""
        released = frozenset(
            name for name, hold in self._held.items() if hold.number <= number and not hold.movedMs
        )
        kept = {name: hold for name, hold in self._held.items() if name not in released}
        self._save(max(number, self._released_number), kept)
        return released

    def set_moved(self, number: int) -> None:
        """Those of the hold are gone for good; durable on return. Raises ``DiskFull``."""
        gone = _Hold(number, self._clock.now_ms())
        self._save(
            self._released_number,
            {name: gone if hold.number == number else hold for name, hold in self._held.items()},
        )

    def _save(self, released_number: int, held: dict[str, _Hold]) -> None:
        now_ms = self._clock.now_ms()
        held = {name: hold for name, hold in held.items() if not _is_old(hold, now_ms)}
        if (released_number, held) == (self._released_number, self._held):
            return
        self._files.replace(self._path, msgspec.json.encode(_File(released_number, held)))
        self._released_number, self._held = released_number, held


def _is_old(hold: _Hold, now_ms: int) -> bool:
    return bool(hold.movedMs) and now_ms - hold.movedMs > MOVED_MS
