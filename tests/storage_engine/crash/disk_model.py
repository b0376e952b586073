"""A disk that remembers what is durable and what a power cut may still take or keep.

    recorder ── operations, in order ──▶ [DiskModel] ── what is certain, what is pending ──▶ images

Everything written since its last sync is pending: each 4 KiB page of a file may have reached the
disk in any of its versions or not at all, each new, changed or deleted name may have reached its
directory or not. A sync makes the pages it covers certain, the sync of a directory its names. After
a sync that *failed* the pages it covered count as clean although nobody knows where they are: no
later sync makes them certain, only writing them again does (Linux since 4.13; ext4, XFS, Btrfs).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4_096
SECTOR_BYTES: Final = 512
VERSIONS_MAX: Final = 6  # of one page between two syncs; the oldest and the newest are kept


class Write(NamedTuple):
    """Bytes reached the page cache, through a map or a descriptor."""

    node: int
    at: int
    content: bytes


class Resize(NamedTuple):
    """A file has another length."""

    node: int
    size_bytes: int


class Sync(NamedTuple):
    """Part of a file was made durable, or, with ``has_failed``, was lost track of."""

    node: int
    start: int
    end: int
    has_failed: bool = False


class Names(NamedTuple):
    """One atomic change of names: creation, rename, removal. Node 0 stands for a directory."""

    links: tuple[tuple[str, int], ...]
    unlinks: tuple[str, ...]


class SyncDir(NamedTuple):
    """The names in a directory were made durable."""

    path: str


class Told(NamedTuple):
    """Not of the disk: somebody was told something, see ``promises``."""

    what: object


Operation = Write | Resize | Sync | Names | SyncDir | Told
DIRECTORY: Final = 0


class Node:
    """One file. ``versions[page]`` are contents that the disk may hold instead of the durable."""

    __slots__ = ("content", "durable", "lost", "versions")

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.versions: dict[int, list[bytes]] = {}
        self.lost: set[int] = set()

    def write(self, at: int, content: bytes) -> None:
        end = at + len(content)
        if end > len(self.content):
            self.content.extend(bytes(end - len(self.content)))
        self.content[at:end] = content
        for page in range(at // PAGE_BYTES, -(-end // PAGE_BYTES)):
            self.lost.discard(page)
            versions = self.versions.setdefault(page, [])
            versions.append(self.page(page))
            if len(versions) > VERSIONS_MAX:
                del versions[1]

    def page(self, page: int) -> bytes:
        return bytes(self.content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])

    def resize(self, size_bytes: int) -> None:
        if size_bytes < len(self.content):
            del self.content[size_bytes:]
            self.versions = {
                page: versions
                for page, versions in self.versions.items()
                if page * PAGE_BYTES < size_bytes
            }
        else:
            self.content.extend(bytes(size_bytes - len(self.content)))

    def sync(self, start: int, end: int, *, has_failed: bool) -> None:
        first, last = start // PAGE_BYTES, -(-min(end, len(self.content)) // PAGE_BYTES)
        if has_failed:
            self.lost.update(page for page in range(first, last) if page in self.versions)
            return
        size_bytes = len(self.content)
        del self.durable[size_bytes:]
        self.durable.extend(bytes(size_bytes - len(self.durable)))
        for page in range(first, last):
            if page not in self.lost:
                self.durable[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = self.page(page)
                self.versions.pop(page, None)

    @property
    def is_pending(self) -> bool:
        return bool(self.versions) or len(self.durable) != len(self.content)


class DiskModel:
    """See the module's docstring. ``names`` is what a running process sees."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.names: dict[str, int] = {}
        self.durable_names: dict[str, int] = {}
        self.pending_names: list[Names] = []

    def apply(self, operation: Operation) -> None:
        if isinstance(operation, Write):
            self.nodes[operation.node].write(operation.at, operation.content)
        elif isinstance(operation, Resize):
            self.nodes[operation.node].resize(operation.size_bytes)
        elif isinstance(operation, Sync):
            node = self.nodes[operation.node]
            node.sync(operation.start, operation.end, has_failed=operation.has_failed)
        elif isinstance(operation, Names):
            for _, node_id in operation.links:
                if node_id != DIRECTORY:
                    self.nodes.setdefault(node_id, Node())
            rename(self.names, operation)
            self.pending_names.append(operation)
        elif isinstance(operation, SyncDir):
            kept = []
            for names in self.pending_names:
                if operation.path in _directories(names):
                    rename(self.durable_names, names)
                else:
                    kept.append(names)
            self.pending_names = kept

    def load(self, files: dict[str, bytes | None]) -> None:
        """Begin with files that are durable; None stands for a directory."""
        for path, content in sorted(files.items()):  # the same numbers for the same files
            node_id = DIRECTORY
            if content is not None:
                node_id = len(self.nodes) + 1
                self.nodes[node_id] = Node(content)
            self.names[path] = self.durable_names[path] = node_id

    def pending_pages(self) -> Iterator[tuple[int, int]]:
        """(node, page) of every page whose place on the disk is not certain."""
        for node_id, node in self.nodes.items():
            for page in node.versions:
                yield node_id, page


def rename(table: dict[str, int], names: Names) -> None:
    """Apply one change of names to a table of them."""
    for path in names.unlinks:
        table.pop(path, None)
    for path, node_id in names.links:
        table[path] = node_id


def _directories(names: Names) -> set[str]:
    paths = [path for path, _ in names.links] + list(names.unlinks)
    return {path.rpartition("/")[0] for path in paths}
