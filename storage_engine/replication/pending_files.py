"""Small files of a replica that many entries have changed, written once.

    entries ── sections ──▶ [PendingFiles] ── take, merged ──▶ the last state of each file

An owner replaces some file with each topic and appends to its journal all the time. A replica that
reads hours of that would sync a hundred times as often as it has to. Nothing is merged across the
point where a file that was appended to is replaced: after a kill while they are
written the same sections come again, maybe in smaller portions, and each must find the file that it
goes on with, or a newer one that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from storage_engine.errors import StoreCorrupt
from storage_engine.replication.entry import Kind, Section

_BYTES_MAX: Final = 16 * 1024 * 1024
_SECTIONS_MAX: Final = 4_096


class PendingFiles:
    """See the module's docstring. Of the sections of an entry that is cut nothing is written before
    its last part has come.
    """

    def __init__(self) -> None:
        self._whole: list[Section] = []
        self._cut: list[Section] = []
        self._appended: set[str] = set()  # names of ``_whole`` that are not replaced in it
        self._bytes = 0

    @property
    def is_much(self) -> bool:
        return self._bytes > _BYTES_MAX or len(self._whole) > _SECTIONS_MAX

    def must_be_written_before(self, sections: Iterable[Section]) -> bool:
        """Whether one of these replaces what is pending as an appendix."""
        return any(
            each.name in self._appended and each.kind in (Kind.FILE, Kind.GONE) for each in sections
        )

    def add(self, sections: Iterable[Section], *, is_cut: bool) -> None:
        """Of the next entry."""
        self._cut += [each for each in sections if each.kind is not Kind.LOG]
        if is_cut:
            return
        replaced = {each.name for each in self._whole if each.kind is not Kind.APPENDED}
        for each in self._cut:
            self._bytes += len(each.content)
            if each.kind is not Kind.APPENDED:
                replaced.add(each.name)
            elif each.name not in replaced:
                self._appended.add(each.name)
        self._whole += self._cut
        self._cut = []

    def drop_cut(self) -> None:
        """The rest of it never comes: another owner has begun."""
        self._cut = []

    def take(self) -> list[Section]:
        """What is whole, which is not pending any more."""
        taken, self._whole = self._whole, []
        self._appended.clear()
        self._bytes = 0
        return taken


class PendingFile:
    """What becomes of one file: ``start`` is where it is gone on with, None for a new one."""

    def __init__(self, start: int | None) -> None:
        self.start = start
        self.content = bytearray()

    @property
    def end(self) -> int:
        return (self.start or 0) + len(self.content)

    def write(self, section: Section) -> None:
        """Raises ``StoreCorrupt``: bytes before it are missing."""
        at = section.position - (self.start or 0)
        if not 0 <= at <= len(self.content):
            raise StoreCorrupt(
                f"the replicated log lacks bytes of {section.name}: from {self.end} to "
                f"{section.position}"
            )
        self.content[at:] = section.content


def merged(sections: Iterable[Section]) -> dict[str, PendingFile | None]:
    """By name what is to be written, None for a file that is gone."""
    found: dict[str, PendingFile | None] = {}
    for section in sections:
        file = found.get(section.name)
        if section.kind is Kind.GONE:
            found[section.name] = None
            continue
        if section.kind is Kind.FILE and not section.position:
            file = found[section.name] = PendingFile(None)
        elif file is None:
            is_appended = section.kind is Kind.APPENDED and section.name not in found
            file = found[section.name] = PendingFile(section.position if is_appended else None)
        file.write(section)
    return found
