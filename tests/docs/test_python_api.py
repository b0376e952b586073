"""The Python client's reference leaves nothing public out, and its docstrings tell the truth of the
signatures.
"""

from __future__ import annotations

import inspect
import re

import mqservice_client
import pytest

from tests.docs.markdown import DOCS, Page
from tests.docs.python_api import CONSTRUCTED, PARTS, markdown_of, member_of, members_of

CONTROL_PLANE = PARTS["The control plane"]
KINDS = [kind for kinds in PARTS.values() for kind in kinds]
METHODS = [
    (kind, name)
    for kind in KINDS
    for name in members_of(kind)
    if inspect.isfunction(member_of(kind, name))
] + [(kind, "__init__") for kind in CONSTRUCTED]


def documented_arguments(docstring: str) -> set[str]:
    _, _, section = inspect.cleandoc(docstring).partition("Args:\n")
    names = re.findall(r"^    ([\w, ]+): ", section.partition("\n\n")[0], re.MULTILINE)
    return {name for several in names for name in several.split(", ")}


def test_every_public_name_is_on_the_page() -> None:
    page = Page(DOCS / "python-api.md").text

    told = set(re.findall(r"(?:`|^### )(\w+)", page, re.MULTILINE))
    assert set(mqservice_client.__all__) - told == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_every_class_method_and_property_says_what_it_is(kind: type) -> None:
    assert kind.__doc__
    silent = [name for name in members_of(kind) if not inspect.getdoc(member_of(kind, name))]
    assert silent == []


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_docstrings_name_the_arguments_that_there_are(kind: type, name: str) -> None:
    method = member_of(kind, name)
    told = documented_arguments(method.__doc__ or "")

    there = set(inspect.signature(method).parameters) - {"self"}

    assert told - there == set()
    if told and kind not in CONTROL_PLANE:
        assert there - told == set()


def test_a_docstring_becomes_paragraphs_lists_and_fences() -> None:
    text = """Send ``it``.

        mq.send("a")

    Args:
        topic: must
            exist.
        one, two: at most one.

    Raises, later:
        Refused: it says no.
    """

    assert markdown_of(text).split("\n\n") == [
        "Send `it`.",
        '```python\nmq.send("a")\n```',
        "**Args:**",
        "* `topic`: must exist.\n* `one`, `two`: at most one.",
        "**Raises, later:**",
        "* `Refused`: it says no.\n",
    ]
