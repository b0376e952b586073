"""Makes the reference of the Python client of its signatures and docstrings.

    mqservice_client, .sync.resources, .testing ──▶ [python_api_page] ──▶ docs/python-api.md

Docstrings are paragraphs, sections such as ``Args:``, and indented examples.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

import mqservice_client
import msgspec
from mqservice_client import (
    Batch,
    Client,
    Message,
    MQError,
    Pending,
    Reject,
    RequestRejected,
    Retry,
    Sql,
    Stored,
    Subscription,
    SubscriptionStats,
)
from mqservice_client.control_calls import UNSET
from mqservice_client.errors import rejected
from mqservice_client.handlers import OrderedBy
from mqservice_client.protocol.problem_texts import MEANINGS
from mqservice_client.sync import resources
from mqservice_client.sync.client import Frames, Transport
from mqservice_client.testing import FakeService

from tests.docs.markdown import DOCS, Page

LINE_CHARS_MAX: Final = 100
PARTS: Final[dict[str, tuple[type, ...]]] = {
    "Sending and receiving": (
        Client,
        Batch,
        Pending,
        Stored,
        Subscription,
        SubscriptionStats,
        Message,
        Sql,
    ),
    "Handlers": (Retry, Reject),
    "The control plane": tuple(
        each
        for each in vars(resources).values()
        if inspect.isclass(each) and each.__module__ == resources.__name__
    ),
    "Tests": (FakeService,),
}
# What the fake has for the network that leads to it.
INSIDE: Final = {"answer", "open", "take", "close", "session", "retry", "wait", "waiter"}
CHOICES: Final = {"Transport": Transport, "Frames": Frames, "OrderedBy": OrderedBy}
_CHOICE: Final = re.compile(rf"\b(?:{'|'.join(CHOICES)})\b")
INTRODUCTIONS: Final = {
    "The control plane": """\
Properties of a client. An argument without an explanation means what it means in [all
operations](api.md), where the fields of results are too. `UNSET` leaves a setting as it is. `list`
returns a page of `limit` entries, `iterate` all, one by one. What changes something is [done
once](rest.md#repeating-a-control-plane-request) however often it is sent: under a key of the
client's, or under your `idempotency_key`. Errors are those of `Client.request`.
"""
}
# What a program makes itself; the others are what methods return.
CONSTRUCTED: Final = (Client, Retry, FakeService)
HEAD: Final = """# Python API

Made of the docstrings of `mqservice_client`; [Python](python.md) is the page to read first. The
types of the control plane are in `mqservice_client.api_types`, `FakeService` is in
`mqservice_client.testing`, everything else in `mqservice_client`.

`AsyncClient`, `AsyncBatch`, `AsyncPending`, `AsyncSubscription` and `AsyncMessage` are the twins of
`Client`, `Batch`, `Pending`, `Subscription` and `Message` on an event loop. Their methods have the
same names, arguments, results and errors; those that wait are awaited, and `for` and `with` are
`async for` and `async with`.

A `Body` is bytes or str, which are sent as they are, or anything else that can be written as JSON.
NaN and infinity, which JSON does not have, become null.
A `Filter` is tags such as `"created || paid"`, or `Sql`.

A `Duration` is text such as `"30s"` or `"500ms"` (`ms`, `s`, `m`, `h`, `d`), or a `timedelta`. A
bare number is an error.
"""


def python_api_page() -> str:
    """The page, as it should be."""
    parts = [HEAD]
    for title, kinds in PARTS.items():
        parts.append(f"## {title}\n\n{INTRODUCTIONS.get(title, '')}")
        for kind in kinds:
            parts += _class_lines(kind)
    parts += _error_lines()
    return "\n".join(parts).rstrip() + "\n"


def _class_lines(kind: type) -> Iterator[str]:
    yield f"### {'Sql' if kind is Sql else kind.__name__}\n"
    if issubclass(kind, msgspec.Struct):
        yield markdown_of(kind.__doc__)
        yield "| field | type |\n|---|---|"
        for field, annotation in inspect.get_annotations(kind).items():
            yield f"| `{field}` | {_typed(str(annotation))} |"
        yield ""
        return
    yield markdown_of(kind.__doc__)
    if kind in CONSTRUCTED:
        yield _signature(kind.__name__, kind)
        yield markdown_of(vars(kind)["__init__"].__doc__)
    properties = [name for name in members_of(kind) if isinstance(member_of(kind, name), property)]
    if properties:
        yield "| property | type | meaning |\n|---|---|---|"
        yield from (_property_line(kind, name) for name in properties)
        yield ""
    for name in members_of(kind):
        if name not in properties:
            yield f"#### {kind.__name__}.{name}\n"
            member = member_of(kind, name)
            yield _signature(name, member)
            yield markdown_of(member.__doc__)
            if kind in PARTS["The control plane"]:
                yield from _returns(member)


def _returns(method: Callable[..., object]) -> Iterator[str]:
    """Where the page of operations has the fields of the result."""
    names = re.findall(r"\w+", str(inspect.get_annotations(method)["return"]))
    if links := [_typed(name) for name in names if name in _documented()]:
        yield f"Returns {' or '.join(links)}.\n"


def _error_lines() -> Iterator[str]:
    codes: dict[type, list[str]] = {}
    for code in MEANINGS:
        codes.setdefault(type(rejected(status=0, code=code, detail="")), []).append(code)
    del codes[RequestRejected]  # those without a class of their own
    yield "## Errors\n"
    yield markdown_of(MQError.__doc__)
    yield "| error | is a | meaning | what to do, or the [codes](errors.md) that say |"
    yield "|---|---|---|---|"
    for name in sorted(mqservice_client.__all__):
        kind = getattr(mqservice_client, name)
        if inspect.isclass(kind) and issubclass(kind, MQError) and kind is not MQError:
            found = ", ".join(f"`{code}`" for code in codes.get(kind, ()))
            base, meaning = kind.__mro__[1].__name__, _cell(kind.__doc__ or "")
            yield f"| `{name}` | `{base}` | {meaning} | {_cell(kind.what_to_do) or found} |"


def members_of(kind: type) -> list[str]:
    """Public methods and properties, those of a base class first, in the order of the source."""
    names = dict.fromkeys(
        name
        for each in reversed(kind.__mro__[:-1])
        for name, member in vars(each).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    )
    return [name for name in names if not (kind is FakeService and name in INSIDE)]


def member_of(kind: type, name: str) -> Any:  # Any: a function or a property
    return inspect.getattr_static(kind, name)


def _property_line(kind: type, name: str) -> str:
    getter = member_of(kind, name).fget
    meaning = _cell(inspect.getdoc(getter) or "")
    returns = str(inspect.get_annotations(getter)["return"])
    if returns in {each.__name__ for each in PARTS["The control plane"]}:
        return f"| `{name}` | [{returns}](#{returns.lower()}) | {meaning} |"
    return f"| `{name}` | {_typed(returns)} | {meaning} |"


def _signature(name: str, target: Callable[..., object]) -> str:
    """As a program would call it, on one line or on several."""
    found = inspect.signature(target)
    words: list[str] = []
    is_keyword = False
    for each in found.parameters.values():
        if each.name == "self":
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            words.append("*")
        word = f"**{each.name}" if each.kind is inspect.Parameter.VAR_KEYWORD else each.name
        word += f": {_CHOICE.sub(_choices, str(each.annotation))}"
        if each.default is not inspect.Parameter.empty:
            word += f" = {_default(each.default)}"
        words.append(word)
    kind = found.return_annotation
    returns = "" if kind is inspect.Signature.empty or inspect.isclass(target) else f" -> {kind}"
    line = f"{name}({', '.join(words)}){returns}"
    if len(line) > LINE_CHARS_MAX:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){returns}"
    return f"```python\n{line}\n```\n"


def _choices(alias: re.Match[str]) -> str:
    """What an alias stands for, where that is a few texts."""
    texts = ", ".join(f'"{text}"' for text in get_args(CHOICES[alias[0]]))
    return f"Literal[{texts}]"


def _default(value: object) -> str:
    if value is Any:
        return "Any"
    return "UNSET" if value is UNSET else repr(value).replace("'", '"')


def markdown_of(docstring: str | None) -> str:
    """Paragraphs, lists of its sections, and fences of its examples."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    made: list[str] = []
    while lines:
        line = lines.pop(0)
        body = []
        while (line.endswith(":") or line.startswith("    ")) and lines:
            if lines[0] and not lines[0].startswith("    "):
                break
            body.append(lines.pop(0))
        if line.startswith("    "):
            code = textwrap.dedent("\n".join([line, *body])).strip()
            made.append(f"```python\n{code}\n```\n")
        elif body and re.fullmatch(r"[A-Z][\w, ]*:", line):
            made.append(f"**{line}**\n\n{_items(body)}\n")
        else:
            made.append(_inline(line))
            if body:
                made.append("\n" + "\n".join(_inline(each) for each in body))
    return "\n".join(made).strip() + "\n"


def _items(lines: list[str]) -> str:
    """``name: meaning`` over several lines each, as a list."""
    items: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" "):
            items[-1] += " " + line.strip()
        elif line:
            items.append(line)
    made = []
    for item in items:
        names, _, meaning = item.partition(": ")
        shown = ", ".join(f"`{name}`" for name in names.split(", "))
        made.append(f"* {shown}: {_inline(meaning)}")
    return "\n".join(made)


def _inline(text: str) -> str:
    """With the marks of Markdown."""
    return text.replace("``", "`")


def _cell(text: str) -> str:
    """Safe within a table, on one line."""
    return _inline(" ".join(text.split())).replace("|", "\\|")


def _typed(text: str) -> str:
    """A type within a table; those of the API have their fields on its page."""
    if text in _documented():
        return f"[{text}](api.md#{text.lower()})"
    return "`" + text.replace("|", "\\|") + "`"


def _documented() -> frozenset[str]:
    return frozenset(re.findall(r"^### (\w+)$", Page(DOCS / "api.md").text, re.MULTILINE))
