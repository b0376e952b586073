"""How results are written: as a table, as JSON or NDJSON; or to a file, completely or not at all.

documents ─▶ prints(output, documents) ─▶ True: written as JSON   False: draw a table
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode

import msgspec
import typer

from mqservice.cli import screen

if TYPE_CHECKING:
    from mqservice.cli.client import RestClient

FileOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="PATH", help="Write to this file instead of stdout."),
]


class Output(enum.StrEnum):
    """What ``-o`` takes in every command that prints data."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"


FormOption = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        help="table: for reading; json: one document; ndjson: one JSON document per line.",
    ),
]

Document = msgspec.Struct | msgspec.Raw
FAILED: Final = 1
PAGE_MESSAGES_MAX: Final = 256


def prints(output: Output, documents: Iterable[Document] | Document) -> bool:
    """Write documents as ``output`` says; False, with nothing written, where that is a table.

    A single document is written as itself, several as an array (json) or as lines (ndjson).
    """
    if output is Output.TABLE:
        return False
    if isinstance(documents, Document):
        encoded = [msgspec.json.encode(documents)]
        whole = encoded[0]
    else:
        encoded = [msgspec.json.encode(each) for each in documents]
        whole = b"[" + b",".join(encoded) + b"]"
    if output is Output.JSON:
        content = msgspec.json.format(whole, indent=2) + b"\n"
    else:
        content = b"".join(each + b"\n" for each in encoded)
    typer.echo(content, nl=False)
    return True


class Documents:
    """Documents that are written as they come, of a list whose end is not known yet."""

    def __init__(self, form: Output) -> None:
        self._form = form
        self._count = 0

    def __enter__(self) -> Documents:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        if self._form is Output.JSON and kind is None:
            self._put(b"\n]\n" if self._count else b"[]\n")

    def write(self, document: bytes, line: str) -> None:
        """``document``: JSON of one line; ``line``: the same for people, without a newline."""
        if self._form is Output.TABLE:
            self._put(line.encode("utf-8", "backslashreplace") + b"\n")
        elif self._form is Output.NDJSON:
            self._put(document.rstrip() + b"\n")
        else:
            self._put((b",\n" if self._count else b"[\n") + document.rstrip())
        self._count += 1

    def _put(self, content: bytes) -> None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


class _Page(msgspec.Struct):
    messages: list[msgspec.Raw]
    next_cursor: str | None = None


async def print_pages(
    client: RestClient,
    path: str,
    query: Mapping[str, str],
    line: Callable[[bytes], str],
    *,
    limit: int,
    form: Output,
    none: str,
) -> int:
    """Write up to ``limit`` messages, page by page, as they came or as ``line`` makes them; say
    where there may be more, and ``none`` where there is none. The exit code.
    """
    left = limit
    with Documents(form) as documents:
        while left > 0:
            asked = urlencode({**query, "limit": str(min(left, PAGE_MESSAGES_MAX))})
            page = await client.call("GET", f"{path}?{asked}", _Page)
            for message in page.messages:
                documents.write(bytes(message), line(bytes(message)))
            left -= len(page.messages)
            if page.next_cursor is None:
                if left == limit:
                    screen.notice(none)
                return 0
            query = {**query, "cursor": page.next_cursor}
    screen.notice(f"there may be more than these {limit:,}; raise --limit to see more")
    return 0


def write_output(content: bytes, output: Path | None) -> int:
    """``output`` None: standard output. The exit code; why a file cannot be written is said."""
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return 0
    aside = output.with_name(f"{output.name}.part")
    try:
        aside.write_bytes(content)
        aside.replace(output)
    except OSError as exc:
        screen.warn(f"cannot write {output}: {exc.strerror}")
        return FAILED
    screen.notice(f"{output}: {len(content):,} bytes")
    return 0
