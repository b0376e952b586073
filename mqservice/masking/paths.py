"""Paths to fields of JSON, as rules give them: a JSON pointer that knows ``*`` and ``**``.

    /card/number     the member number of the member card
    /items/*/price   of every item
    /**/password     at any depth

Arrays are looked through: /items/price means the price of every item as well. Names are compared
without case and compatibility forms, since programs that read them do not agree on those either:
a rule hides rather too much than too little.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from mqservice.masking.limits import PATH_CHARS_MAX, STEPS_MAX

ANY: Final = "*"
ANY_DEPTH: Final = "**"
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
Path = tuple[str, ...]


def path_fault(text: str) -> str | None:
    """Why ``text`` is no path of a rule; None when it is one."""
    if not text.startswith("/") or len(text) > PATH_CHARS_MAX:
        return (
            f"a path must start with / and have at most {PATH_CHARS_MAX} characters, such "
            "as /card/number"
        )
    if not text.isprintable():
        return "a path must not have control characters"
    if _BAD_ESCAPE.search(text):
        return "write ~ in a name as ~0, and / as ~1"
    steps = text[1:].split("/")
    if len(steps) > STEPS_MAX:
        return f"a path has at most {STEPS_MAX} steps, found {len(steps)}"
    if steps[-1] == ANY_DEPTH:
        return "a path must not end in **: hide the whole body instead"
    if "" in steps:
        return "a path must not have an empty step"
    return None


def parse_path(text: str) -> Path:
    """The steps of a path without fault, as ``folded`` compares them."""
    steps = text[1:].split("/")
    return tuple(folded(step.replace("~1", "/").replace("~0", "~")) for step in steps)


def folded(name: str) -> str:
    """A name of a member as it is compared."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


class Places:
    """Where in several paths one is, while going down a document.

    Steps that were asked for are remembered: most items of a document are like one another.
    """

    __slots__ = ("_are_items_alike", "_known", "_places")

    def __init__(self, places: frozenset[tuple[Path, int]]) -> None:
        self._places = places
        self._known: dict[tuple[str, bool], Places | None] = {}
        self._are_items_alike = not any(path[index].isdigit() for path, index in places)

    @classmethod
    def at_root(cls, paths: frozenset[Path]) -> Places:
        return cls(_closed({(path, 0) for path in paths}))

    def step(self, name: str, *, is_item: bool) -> Places | None:
        """Those of a member, or of an item whose index is ``name``; None: it is to be hidden."""
        asked = ("" if is_item and self._are_items_alike else name), is_item
        if asked not in self._known:
            found = self._step(*asked)
            # The same places again are the same object: what it knows serves all levels.
            same = found is not None and found._places == self._places
            self._known[asked] = self if same else found
        return self._known[asked]

    def _step(self, name: str, is_item: bool) -> Places | None:
        wanted = folded(name)
        found: set[tuple[Path, int]] = set(self._places) if is_item else set()
        for path, index in self._places:
            step = path[index]
            if step == ANY_DEPTH:
                found.add((path, index))
            elif step in (ANY, wanted):
                if index + 1 == len(path):
                    return None
                found.add((path, index + 1))
        return Places(_closed(found))

    @property
    def is_on_the_way(self) -> bool:
        """Whether a path has led to here by a name and asks for more: a value that has no members
        stands where they were expected.
        """
        return any(
            index > 0 and path[index - 1] not in (ANY, ANY_DEPTH) and path[index] != ANY_DEPTH
            for path, index in self._places
        )

    def __bool__(self) -> bool:
        return bool(self._places)


def _closed(places: set[tuple[Path, int]]) -> frozenset[tuple[Path, int]]:
    """With those behind a ``**``, which may stand for no step at all."""
    found = set(places)
    for path, index in places:
        while path[index] == ANY_DEPTH:
            index += 1
            found.add((path, index))
    return frozenset(found)
