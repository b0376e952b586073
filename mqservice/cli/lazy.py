"""A command group whose modules are loaded when a command of it is used.

    Entry(module, summary) ─▶ [LazyGroup] ─▶ import ─▶ typer ─▶ the command, in plain words

Importing all commands takes twice as long as any of them runs. The help of the whole program is
made of the entries alone. What all commands have in common is added here when one is loaded: words
instead of Python's types in its help, and options for the ``target`` that it takes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final, NamedTuple, NoReturn

import typer
from typer._click.decorators import help_option
from typer._click.shell_completion import CompletionItem
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.exceptions import TyperException
from typer.main import get_command, get_group

from mqservice.cli import screen
from mqservice.cli.options import connected
from mqservice.cli.values import Reader, range_text

COMPLETE_VARIABLE: Final = "_MQSERVICE_COMPLETE"  # what the script of `completion` sets
TRACEBACK_VARIABLE: Final = "MQ_CLI_TRACEBACK"
BROKEN: Final = 1
_PLAIN: Final = {"int": "N", "float": "NUMBER", "Path": "PATH"}


class Entry(NamedTuple):
    """``modules``: one with a function of the command's name or an ``app``; more ``app``s join it.

    ``summary`` is the line in the list of all commands.
    """

    summary: str
    modules: tuple[str, ...]
    is_group: bool = True


class _Commands(MutableMapping[str, Any]):  # reason: typer has no public name for commands
    """The commands by name, each loaded the first time it is looked up."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self.entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class LazyGroup(TyperGroup):
    """The program: ``entries`` are set by a subclass."""

    entries: ClassVar[dict[str, Entry]]

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = None
        super().__init__(**attributes)
        self.commands = _Commands(self.entries)
        _simplify_help(self)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return found or super(TyperGroup, self).shell_complete(ctx, incomplete)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and leave with an exit code. Whatever goes wrong is one line on stderr."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        complete_var = complete_var or COMPLETE_VARIABLE
        if complete_var in os.environ:
            from typer._completion_classes import completion_init

            completion_init()
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except TyperException as exc:
            _print_rejection(exc)
        except typer.Abort:
            screen.print_error("aborted; nothing was changed")
            sys.exit(BROKEN)
        except Exception as exc:  # the outermost frame
            if os.environ.get(TRACEBACK_VARIABLE):
                raise
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            place = f" {exc.filename}" if isinstance(exc, OSError) and exc.filename else ""
            hint = "" if isinstance(exc, OSError) else f" ({TRACEBACK_VARIABLE}=1 shows where)"
            screen.print_error(f"{type(exc).__name__}:{place} {why}{hint}")
            sys.exit(BROKEN)
        sys.exit(code if isinstance(code, int) else 0)


def _print_rejection(exc: TyperException) -> NoReturn:
    context = getattr(exc, "ctx", None)
    if type(exc).__name__ == "NoArgsIsHelpError":
        print(exc.format_message(), file=sys.stderr)
    elif context is None:
        screen.print_error(exc.format_message())
    else:
        message = exc.format_message().rstrip(".")
        screen.print_error(f"{message}; see `{context.command_path} --help`")
    sys.exit(exc.exit_code)


def _load(name: str, entry: Entry) -> Any:
    first, *others = (import_module(f"mqservice.cli.{module}") for module in entry.modules)
    if entry.is_group:
        app = first.app
        for other in others:
            app.registered_commands += other.app.registered_commands
    else:
        app = typer.Typer(add_completion=False)
        app.command(name)(getattr(first, name.replace("-", "_")))
    for info in app.registered_commands:
        assert info.callback is not None
        info.callback = connected(info.callback)
    # Plain text: what draws frames around the help takes longer to load than the rest of it.
    app.rich_markup_mode = None
    command = get_group(app) if entry.is_group else get_command(app)
    command.name = name
    _prepare(command)
    return command


def _prepare(command: Any) -> None:
    for each in command.commands.values() if isinstance(command, TyperGroup) else ():
        _prepare(each)
    _simplify_help(command)


class _PlainArgument(TyperArgument):
    def get_runtime_param(self) -> Any:  # reason: typer's own class loads pydantic
        return Reader(self.type_descriptor.annotation, low=self.min, high=self.max)

    def display_type_rich(self, ctx: Any) -> str | None:
        return None

    def _usage_display_name(self) -> str:
        name = self.display_name_raw
        if self.metavar is None and self.nargs != 1:
            name += "..."
        return name if self.required or name.startswith("[") else f"[{name}]"


class _PlainOption(TyperOption):
    def get_runtime_param(self) -> Any:  # reason: as above
        return Reader(self.type_descriptor.annotation, low=self.min, high=self.max)

    def _get_number_range_help_str(self) -> str | None:
        return range_text(self.min, self.max) or None


def _simplify_help(command: Any) -> None:
    """Values are named by what they are, not by their type in Python."""
    help_option(["-h", "--help"])(command)
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = _PlainArgument
            if parameter.metavar is None:
                parameter.metavar = parameter.name.upper().replace("_", "-")
                if parameter.nargs != 1:
                    parameter.metavar += "..."
        elif isinstance(parameter, TyperOption):
            parameter.__class__ = _PlainOption
            if parameter.metavar is None and not parameter.is_flag:
                parameter.metavar = _metavar(parameter)


def _metavar(option: TyperOption) -> str:
    kind = option.type_descriptor
    if kind.is_choice and kind.choices is not None:
        return "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices)
    name = getattr(kind.annotation, "__name__", "")
    if name in _PLAIN:
        return _PLAIN[name]
    longest = max(option.opts, key=len)
    return longest.strip("-").rpartition("-")[2].upper()
