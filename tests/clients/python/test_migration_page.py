"""What the page for those who come from other clients says of this one exists, and takes these
arguments.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import mqservice_client
import pytest
from mqservice_client import Batch, Client, Message, Stored, Subscription
from mqservice_client.sync import resources

from tests.docs.markdown import DOCS, Page

ROOTS: Final = {
    "mq": Client,
    "message": Message,
    "subscription": Subscription,
    "batch": Batch,
    "stored": Stored,
}
SECTION: Final = "## Python clients, call by call"


def our_calls() -> Iterator[str]:
    """The code in the last column of each table of the section."""
    text = Page(DOCS / "coming-from.md").text.partition(SECTION)[2].partition("\n## ")[0]
    for row in re.findall(r"^\| .*\|$", text, re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", row.removesuffix(" |").split(" | ")[-1])


CALLS: Final = list(dict.fromkeys(our_calls()))


def found(node: ast.expr) -> Any:  # Any: a class, a method, or a value
    """What a name or a path of names means; raises LookupError."""
    if isinstance(node, ast.Name):
        return ROOTS.get(node.id) or getattr(mqservice_client, node.id)
    assert isinstance(node, ast.Attribute), ast.dump(node)
    owner = found(node.value)
    member = inspect.getattr_static(owner, node.attr)
    if isinstance(member, property) and owner is Client:
        return getattr(resources, node.attr.title().replace("_", ""))
    return member


def check(text: str) -> None:
    """Raises what Python would: AttributeError, or TypeError for wrong arguments."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Call):
        found(node)
        return
    target = found(node.func)
    values: list[object] = [None] * len(node.args)
    if isinstance(node.func, ast.Attribute):
        values.insert(0, None)  # self
    if inspect.isclass(target) and target.__init__ is Exception.__init__:
        return  # takes whatever an exception takes
    inspect.signature(target).bind(*values, **{str(each.arg): None for each in node.keywords})


@pytest.mark.parametrize("text", [text for text in CALLS if text != "async for"])
def test_a_name_of_ours_exists_and_takes_these_arguments(text: str) -> None:
    check(text)


def test_every_table_has_calls_of_ours() -> None:
    assert len(CALLS) > 60


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mq.sned(topic, body)", AttributeError),
        ("mq.send(topic)", TypeError),
        ("mq.send(topic, body, later=1)", TypeError),
        ("mq.groups.rewind(group)", AttributeError),
        ("message.reject()", AttributeError),
        ("Sqs()", AttributeError),
    ],
)
def test_a_name_that_is_not_there_is_a_fault(text: str, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        check(text)
