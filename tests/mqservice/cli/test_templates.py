"""``--format``: kcat's placeholders, escapes, and refusals that name what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqservice.cli.errors import UsageError
from mqservice.cli.messages import Delivered
from mqservice.cli.templates import PLACEHOLDERS, Template

MESSAGE = Delivered(
    id="0A",
    queue=3,
    offset=42,
    attempt=2,
    body=b"\xffbody",
    tag="paid",
    keys=["k1", "k2"],
    message_group="g",
    properties={"a": "b", "c": "d"},
    stored_at="2026-11-21T12:08:24.757Z",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%p:%o %k %s\n", b"3:42 k1,k2 \xffbody\n"),
        (r"%t\t%S\t%K", b"orders\t5\t5"),
        ("%T %D", b"1795262904757 2026-11-21T12:08:24.757Z"),
        ("%h %g %G %i %a", b"a=b,c=d paid g 0A 2"),
        ("%B", b"/2JvZHk="),
        (r"100%% \\ ž\0", "100% \\ ž\0".encode()),
        ("", b""),
    ],
)
def test_placeholders_and_escapes(text: str, expected: bytes) -> None:
    assert Template(text).write(MESSAGE, "orders") == expected


def test_what_a_message_lacks_is_empty() -> None:
    bare = Delivered(id="", queue=0, offset=0, body=b"")
    text = "|".join(f"%{letter}" for letter in PLACEHOLDERS)
    assert Template(text).write(bare, "t") == b"|0|||0|t|0|0|-1||||||0"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("%x", "no placeholder %x; use %s"), ("50%", "no placeholder %;"),
     (r"\x", r"no escape \\x"), ("end\\", "no escape")],
)  # fmt: skip
def test_what_is_none_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Template(text)


def test_the_page_lists_every_placeholder() -> None:
    page = (Path(__file__).parents[3] / "docs/cli.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `%")]
    assert listed == [f"| `%{letter}` | {text} |" for letter, (text, _) in PLACEHOLDERS.items()]
