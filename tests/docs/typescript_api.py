"""Makes the reference of the TypeScript client of its declarations and their comments.

    clients/typescript/src/*.ts ──▶ [typescript_api_page] ──▶ docs/typescript-api.md

It reads the sources as they are written here: one declaration a line, members indented by two
spaces, ``/** … */`` before what it explains, ``@internal`` where it is nobody's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.clients.typescript.package import SOURCE

MESSAGES: Final = (
    "Client", "ClientOptions", "CallOptions", "SendOptions", "OutgoingMessage", "Body", "Stored",
    "SendResult", "Batch", "BatchOptions", "Subscription", "SubscribeOptions", "SubscriptionStats",
    "Message", "Duration",
)  # fmt: skip
ERRORS: Final = (
    "MqError", "UsageError", "UnreachableError", "OutcomeUnknownError", "RejectedError",
    "LeaseExpiredError", "ConnectionLostError", "MalformedResponseError", "Fault", "isRejected",
)  # fmt: skip
HEAD: Final = """# TypeScript API

Made of the declarations of `@mqservice/client` and their comments; [TypeScript](typescript.md) is
the page to read first.
"""
CONTROL_PLANE: Final = """## The control plane

Properties of a client. Types of bodies and results are in `api`, such as `api.TopicOut`; [all
operations](api.md) tells what their fields mean. Query parameters stand among the options. Errors
are those of `send`.
"""
_DECLARATION: Final = re.compile(
    r"(?:/\*\*(?P<comment>(?:(?!\*/).)*?)\*/\n)?"
    r"export (?P<kind>class|interface|type|function) (?P<name>\w+)(?P<rest>[^\n]*)",
    re.DOTALL,
)
# Of classes and iterators; a member that overrides another is told where it comes from.
_PROTOCOL: Final = frozenset({"constructor", "next", "return"})
_MEMBER: Final = re.compile(r"^  (?!override )(?:(?:readonly|async|get) )*(\w+)(\??)([(:<].*)$")


@dataclass
class Member:
    """A field, which has a type, or a method, which has a signature."""

    name: str
    comment: str
    type: str = ""
    signature: str = ""


@dataclass
class Declaration:
    """What a module exports; ``code`` is that of a type or a function."""

    comment: str
    base: str = ""
    code: str = ""
    members: list[Member] = field(default_factory=list)


def typescript_api_page() -> str:
    """The page, as it should be."""
    found: dict[str, Declaration] = {}
    for path in sorted((SOURCE / "src").glob("*.ts")):
        found |= declarations(path.read_text())
    lines = [HEAD, "## Sending and receiving\n"]
    for name in MESSAGES:
        lines += _lines(name, found[name])
    lines += ["## Errors\n"]
    for name in ERRORS:
        lines += _lines(name, found[name])
    lines += [CONTROL_PLANE]
    operations = declarations((SOURCE / "src" / "generated" / "api.ts").read_text())
    for member in found["Client"].members:
        if member.type in operations:
            lines += _lines(member.name, operations[member.type])
    return "\n".join(lines).rstrip() + "\n"


def declarations(text: str) -> dict[str, Declaration]:
    """By name; those marked ``@internal`` are left out."""
    found = {}
    for each in _DECLARATION.finditer(text):
        comment, rest = _plain(each["comment"] or ""), each["rest"]
        if "@internal" in comment:
            continue
        if each["kind"] in ("class", "interface"):
            base = re.search(r" extends (\w+)", rest)
            body = "" if rest.endswith("{}") else text[each.end() :].partition("\n}")[0]
            made = Declaration(comment, base[1] if base else "", "", list(_members(body)))
        else:
            made = Declaration(comment, code=f"{each['kind']} {each['name']}{rest.rstrip(' {')}")
        found[each["name"]] = made
    return found


def _members(body: str) -> Iterator[Member]:
    comment = ""
    lines = iter(body.split("\n"))
    for line in lines:
        if line.startswith("  /**"):
            while "*/" not in line:
                line += "\n" + next(lines)
            comment = _plain(line.partition("/**")[2].partition("*/")[0])
            continue
        found, is_internal = _MEMBER.match(line), "@internal" in comment
        if found is not None and found[1] not in _PROTOCOL and not is_internal:
            yield _member(found, line, comment)
        comment = ""


def _member(found: re.Match[str], line: str, comment: str) -> Member:
    name, optional, rest = found.groups()
    if rest.startswith(":"):
        kind = re.split(r" = |;$", rest[1:].strip())[0]
        return Member(name, comment, type=kind + (", optional" if optional else ""))
    signature = re.sub(r"^async ", "", line.strip().removesuffix("{").strip())
    if signature.startswith("get "):
        return Member(name, comment, type=signature.rpartition("): ")[2])
    return Member(name, comment, signature=signature)


def _lines(name: str, declaration: Declaration) -> Iterator[str]:
    yield f"### {name}\n"
    if declaration.comment:
        yield declaration.comment + "\n"
    if declaration.base in (*MESSAGES, *ERRORS):
        yield f"Extends [{declaration.base}](#{declaration.base.lower()}).\n"
    if declaration.code:
        yield f"```ts\n{declaration.code}\n```\n"
    if fields := [each for each in declaration.members if each.type]:
        yield "| field | type | meaning |\n|---|---|---|"
        for each in fields:
            yield f"| `{each.name}` | {_code(each.type)} | {_cell(each.comment)} |"
        yield ""
    for each in declaration.members:
        if each.signature:
            yield f"#### {name}.{each.name}\n\n```ts\n{each.signature}\n```\n\n{each.comment}\n"


def _plain(comment: str) -> str:
    """Without the marks of the comment, on as many lines as it has."""
    lines = [re.sub(r"^\s*\* ?", "", line).strip() for line in comment.strip().split("\n")]
    return "\n".join(lines).strip()


def _code(kind: str) -> str:
    text, _, is_optional = kind.partition(", optional")
    escaped = _cell(text)
    return f"`{escaped}`" + (", optional" if kind.endswith(", optional") else is_optional)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
