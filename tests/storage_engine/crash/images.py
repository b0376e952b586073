"""All ways a power cut may leave the disk, at one moment.

    DiskModel ── pending pages, pending names ──▶ [images_at] ──▶ images: path → content

An image picks, for each pending page, one of the contents it may have; for the newest page also
every tear at 512 bytes; for each grown file, whether its new length is known (with or without its
bytes); and of the pending changes of names any subset, in their order. Few pending things give all
interesting subsets (none, all, each alone, all but one); random ones are added, drawn from a seed.
Contents are kept once, in a pool, and an image is a tuple of (path, number of the content).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tests.storage_engine.crash.disk_model import (
    DIRECTORY,
    PAGE_BYTES,
    SECTOR_BYTES,
    DiskModel,
    Node,
    rename,
)

Image = tuple[tuple[str, int], ...]
Place = tuple[int, int]  # (node, page)
SINGLES_MAX: Final = 12  # more pending things than these are left to the random draws


class Pool:
    """Contents by number; number 0 is a directory."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.contents: list[bytes] = [b""]

    def number(self, content: bytes) -> int:
        known = self._numbers.get(content)
        if known is None:
            known = self._numbers[content] = len(self.contents)
            self.contents.append(content)
        return known


class _Choice(NamedTuple):
    """One way it may be. Pages not named keep their durable content."""

    pages: Mapping[Place, bytes]
    names: frozenset[int]
    grown: bool = True  # a file that grew has its new length even where its bytes are missing


class Camera:
    """Takes images of one model; see the module's docstring."""

    def __init__(self, pool: Pool, seed: int, random_count: int) -> None:
        self._pool = pool
        self._random = random.Random(seed)
        self._random_count = random_count

    def images_at(self, model: DiskModel, newest: Place | None) -> Iterator[Image]:
        """Every image that this moment allows and that is tried. ``newest``: page to tear."""
        certain = {
            node_id: self._pool.number(bytes(node.durable)) for node_id, node in model.nodes.items()
        }
        for choice in self._choices(model, newest):
            numbers = dict(certain)
            for node_id in {place[0] for place in choice.pages}:
                numbers[node_id] = self._pool.number(
                    _content(node_id, model.nodes[node_id], choice)
                )
            if choice.grown:
                for node_id, node in model.nodes.items():
                    if len(node.content) != len(node.durable):
                        numbers[node_id] = self._pool.number(_content(node_id, node, choice))
            yield _assemble(model, numbers, choice.names)

    def killed(self, model: DiskModel) -> Image:
        """What stays after a kill: all that the page cache knows."""
        numbers = {
            node_id: self._pool.number(bytes(node.content)) for node_id, node in model.nodes.items()
        }
        return _assemble(model, numbers, frozenset(range(len(model.pending_names))))

    def _choices(self, model: DiskModel, newest: Place | None) -> Iterator[_Choice]:
        places = list(model.pending_pages())
        latest = {place: model.nodes[place[0]].versions[place[1]][-1] for place in places}
        all_names = frozenset(range(len(model.pending_names)))
        none: frozenset[int] = frozenset()
        yield _Choice(latest, all_names)
        yield _Choice({}, none, grown=False)
        yield _Choice({}, all_names)
        yield _Choice({}, all_names, grown=False)
        yield _Choice(latest, none)
        for place in places[-SINGLES_MAX:]:
            others = {other: content for other, content in latest.items() if other != place}
            yield _Choice({place: latest[place]}, all_names)
            yield _Choice({place: latest[place]}, none, grown=False)
            yield _Choice(others, all_names)
        for name in sorted(all_names)[-SINGLES_MAX:]:
            yield _Choice(latest, frozenset({name}))
            yield _Choice(latest, all_names - {name})
            yield _Choice({}, frozenset({name}))
        if newest in latest:
            assert newest is not None
            old = _durable_page(model.nodes[newest[0]], newest[1])
            for torn in _tears(old, latest[newest]):
                yield _Choice({**latest, newest: torn}, all_names)
                yield _Choice({newest: torn}, all_names)
        if places or all_names:
            for _ in range(self._random_count):
                yield self._drawn(model, places, all_names)

    def _drawn(self, model: DiskModel, places: list[Place], all_names: frozenset[int]) -> _Choice:
        draw = self._random
        share = draw.random()
        pages = {}
        for node_id, page in places:
            if draw.random() < share:
                node = model.nodes[node_id]
                content = draw.choice(node.versions[page])
                if draw.random() < 0.2:
                    content = self._sectors(_durable_page(node, page), content)
                pages[node_id, page] = content
        names = frozenset(name for name in all_names if draw.random() < 0.7)
        return _Choice(pages, names, grown=draw.random() < 0.5)

    def _sectors(self, old: bytes, new: bytes) -> bytes:
        """A page of which some sectors are new and some are old."""
        old = old.ljust(len(new), b"\0")
        return b"".join(
            (new if self._random.random() < 0.5 else old)[at : at + SECTOR_BYTES]
            for at in range(0, len(new), SECTOR_BYTES)
        )


def _tears(old: bytes, new: bytes) -> Iterator[bytes]:
    """The new page up to a sector's end and the old one behind; the reverse; a short file."""
    is_longer = len(new) > len(old)
    whole = old.ljust(len(new), b"\0")
    for at in range(SECTOR_BYTES, len(new), SECTOR_BYTES):
        yield new[:at] + whole[at:]
        yield whole[:at] + new[at:]
    if is_longer:
        for cut in sorted({len(old) + 1, (len(old) + len(new)) // 2, len(new) - 1}):
            yield new[:cut]


def _durable_page(node: Node, page: int) -> bytes:
    return bytes(node.durable[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])


def _content(node_id: int, node: Node, choice: _Choice) -> bytes:
    """A file's bytes: durable ones, with the chosen pages over them."""
    content = bytearray(node.durable)
    if choice.grown and len(node.content) != len(content):
        del content[len(node.content) :]
        content.extend(bytes(len(node.content) - len(content)))
    for page in node.versions:
        chosen = choice.pages.get((node_id, page))
        if chosen is not None:
            at = page * PAGE_BYTES
            content.extend(bytes(max(0, at - len(content))))
            content[at : at + len(chosen)] = chosen
            if len(chosen) < PAGE_BYTES and len(node.durable) <= at + len(chosen):
                del content[at + len(chosen) :]  # a torn append ends where it was torn
    return bytes(content)


def _assemble(model: DiskModel, numbers: dict[int, int], names: frozenset[int]) -> Image:
    """The names of the image with their contents; nothing below a missing directory."""
    table = dict(model.durable_names)
    for index in sorted(names):
        rename(table, model.pending_names[index])
    found = []
    for path in sorted(table):
        parent = path.rpartition("/")[0]
        while parent in model.names and parent in table:
            parent = parent.rpartition("/")[0]
        if parent in model.names:
            continue  # its directory, or one above, is not on the disk
        node_id = table[path]
        found.append((path, 0 if node_id == DIRECTORY else numbers[node_id]))
    return tuple(found)
