"""Options of commands out of the settings of a resource.

SETTINGS ──▶ @takes_settings ──▶ an option for each ──▶ command(body, …): what is sent
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from mqservice.cli import screen
from mqservice.cli.errors import UsageError
from mqservice.cli.options import takes
from mqservice.lib import settings_table as table

RestP = ParamSpec("RestP")
Body = dict[str, object]
UNLIMITED = "unlimited"


def takes_settings(
    settings: table.Settings,
) -> Callable[[Callable[Concatenate[Body, RestP], None]], Callable[..., None]]:
    """Let a command take an option for each setting; its first parameter gets the body of the
    request. Ends the command where an option makes no sense.
    """
    options: type[Any] = dataclasses.make_dataclass(  # Any: made here
        "Options", list(_options_of(settings))
    )

    def wrap(command: Callable[Concatenate[Body, RestP], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(given: Any, /, *args: RestP.args, **rest: RestP.kwargs) -> None:
            command(_body_of(settings, given), *args, **rest)

        run.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
        return takes(options)(run)

    return wrap


def _options_of(settings: table.Settings) -> Iterator[tuple[str, Any, Any]]:
    for setting in table.settable(settings):
        if not isinstance(setting.kind, table.Document):
            help = setting.option_help
            yield _option(setting.name, setting.kind, setting.flags, help)
            continue
        for part in setting.kind.parts:
            name = f"{setting.name}_{part.name}"
            yield _option(name, part.kind, part.option, part.option_help, part.metavar)


def _option(
    name: str, kind: table.Kind, flags: str, help: str, metavar: str | None = None
) -> tuple[str, Any, Any]:
    option = typer.Option(flags, help=help, metavar=metavar)
    return name, Annotated[_type_of(kind) | None, option], dataclasses.field(default=None)


def _type_of(kind: table.Kind) -> Any:  # Any: a type as typer takes it
    match kind:
        case table.Choice():
            return kind.values
        case table.Boolean():
            return bool
        case table.Integer():
            return str if kind.has_null else int
        case table.Number():
            return float
        case table.Durations() | table.Names() | table.QueuesByName():
            return list[str]
        case _:
            return str


def _body_of(settings: table.Settings, given: object) -> Body:
    """What is sent: the options that were given."""
    body: Body = {}
    for setting in table.settable(settings):
        kind, value = setting.kind, getattr(given, setting.name, None)
        if isinstance(kind, table.Document):
            value = _document_of(setting.name, kind, given)
        if value is None:
            continue
        if isinstance(kind, table.Integer) and kind.has_null:
            body[setting.name] = _number_or_null(setting.flags, value)
        else:
            body[setting.name] = value
        if setting.only_with is not None:
            body.setdefault(*setting.only_with)
    return body


def _number_or_null(flags: str, text: str) -> int | None:
    if text != UNLIMITED and not (text.isascii() and text.isdecimal()):
        screen.fail(UsageError(f"{flags} must be a number or {UNLIMITED}"))
    return None if text == UNLIMITED else int(text)


def _document_of(name: str, kind: table.Document, given: object) -> Body | None:
    """Its parts; without the one that tells its form, that which the others belong to."""
    found: Body = {}
    for part in kind.parts:
        value = getattr(given, f"{name}_{part.name}")
        if isinstance(part.kind, table.QueuesByName):
            value = _queues_of(part.option, value)
        if value not in (None, []):
            found[part.name] = value
    if found and kind.tag:
        form = next(part.form for part in kind.parts if part.name in found)
        found.setdefault(kind.tag, form)
    return found or None


def _queues_of(option: str, texts: list[str] | None) -> dict[str, list[int]] | None:
    """``["w1=0,1", "w2=2"]`` as the API writes it; ends the command when it is of another form."""
    found: dict[str, list[int]] = {}
    for text in texts or ():
        name, separator, queues = text.partition("=")
        numbers = queues.split(",") if queues else []
        if not (name and separator and all(each.isascii() and each.isdigit() for each in numbers)):
            screen.fail(UsageError(f"{option} must be NAME=QUEUE,QUEUE…, found {text!r}"))
        if name in found:
            screen.fail(UsageError(f"{option} names {name!r} twice"))
        found[name] = [int(each) for each in numbers]
    return found or None
