"""Finds commands, options, targets of make and variables that only pages know.

    fences of sh ──▶ [shell_commands] ──▶ [command_fault]  ◀── the program's own parser
    prose ──▶ inline code, MQ_… ──▶ [spoken_fault], [unknown_variables]

A command in a fence must parse as it stands, so also its arguments count. In prose a command may
be cut short; its words and options must exist.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
import typer.main

from mqservice.cli.main import app
from storage_engine.config import StoreConfig
from tests.docs.markdown import ROOT, Page

SHELLS: Final = frozenset({"sh", "bash", "console", "shell"})
PROGRAM: Final = "mqservice"
_ENDS: Final = frozenset({"|", "||", "&&", ";", "&", ")", "("})
_REDIRECTS: Final = frozenset({">", ">>", "<", "2>"})
_VARIABLE: Final = re.compile(r"\bMQ_[A-Z0-9]+(?:_[A-Z0-9]+)*\b")
_CODE_OF: Final = (
    "mqservice", "storage_engine", "analytics", "deploy", "bench", "tests", "Makefile",
    "compose.yaml",
)  # fmt: skip


def shell_commands(text: str) -> Iterator[list[str]]:
    """Each simple command of a script, as words; substitutions within words stay as they are."""
    joined = text.replace("\\\n", " ")
    for line in joined.split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            words = list(lexer)
        except ValueError:  # a text over several lines
            continue
        command: list[str] = []
        for word in words:
            if word in _ENDS:
                yield command
                command = []
            else:
                command.append(word)
        yield command


def arguments_of(command: list[str]) -> list[str] | None:
    """What is given to our program; None where the command is another one."""
    words = list(command)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if not words:
        return None
    if words[0] != PROGRAM and not words[0].endswith(f"/{PROGRAM}"):
        if PROGRAM not in words or "exec" not in words[: words.index(PROGRAM)]:
            return None
        words = words[words.index(PROGRAM) :]
    if words[0].startswith("/") and not words[0].endswith(f"bin/{PROGRAM}"):
        return None
    for place, word in enumerate(words):
        if word in _REDIRECTS:
            words = words[:place]
            break
    return words[1:]


def command_fault(arguments: list[str]) -> str | None:
    """Why the program would refuse these arguments; None when it would take them."""
    command, context, rest = _walk(arguments)
    if command is None:
        return f"there is no command {rest[0] if rest else ''!r}"
    try:
        with command.make_context(command.name, list(rest), parent=context):
            return None
    except Exception as exc:  # of a parser that typer brings along, hence without a name of ours
        if hasattr(exc, "format_message"):
            return str(exc.format_message())
        raise


def spoken_fault(arguments: list[str]) -> str | None:
    """Which word of a command that may be cut short does not exist."""
    command, _, rest = _walk(arguments)
    if command is None:
        return f"there is no command {rest[0]!r}" if rest else None
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for word in rest:
        name = word.partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", name) and name not in known | {"--help"}:
            return f"{command.name} has no option {name}"
    return None


def spoken_commands(page: Page) -> Iterator[tuple[int, str, list[str]]]:
    """Commands of our program in the page's prose: line, text, arguments; ``a|b`` are two."""
    for line, code in page.inline_code:
        if code.startswith((f"{PROGRAM} ", f".venv/bin/{PROGRAM} ")):
            arguments = re.sub(r"[\[\]…]", " ", code).split()[1:]
            choices = next(
                (word for word in arguments if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word)), ""
            )
            for choice in choices.split("|"):
                yield (
                    line,
                    code,
                    [choice if word == choices and choices else word for word in arguments],
                )


def make_targets() -> frozenset[str]:
    """What ``make`` can be asked for."""
    return frozenset(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def unknown_variables(page: Page) -> list[str]:
    """Variables that the page names and nothing reads."""
    return sorted(set(_VARIABLE.findall(page.text)) - known_variables())


@cache
def known_variables() -> frozenset[str]:
    """Every variable that the code, the Makefile or the ways of deploying know."""
    fields = {f"MQ_ENGINE_{each.name.upper()}" for each in msgspec.structs.fields(StoreConfig)}
    named: set[str] = set()
    for place in _CODE_OF:
        path = ROOT / place
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        for each in files:
            ours = each.is_relative_to(ROOT / "tests" / "docs")
            if not ours and each.suffix in {".py", ".yaml", ".service", ".example", ""}:
                named |= set(_VARIABLE.findall(each.read_text()))
    return frozenset(fields | {name for name in named if not name.startswith("MQ_ENGINE_")})


def _walk(arguments: list[str]) -> tuple[Any, Any, list[str]]:  # Any: typer's own kind of commands
    """The command that the first words name, its parent's context, and the words left over."""
    command: Any = typer.main.get_command(app)
    context: Any = None
    rest = list(arguments)
    while hasattr(command, "commands"):
        if not rest or rest[0].startswith("-"):
            return command, context, rest
        if rest[0] not in command.commands:
            return None, context, rest
        context = command.context_class(command, info_name=command.name, parent=context)
        command = command.commands[rest.pop(0)]
    return command, context, rest
