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
from mqservice.cli.options import Ended, takes
from mqservice.lib import settings_table as table

RestP = ParamSpec("RestP")
Body = dict[str, object]
UNLIMITED = "unlimited"


def takes_settings(
    settings: table.Settings,
) -> Callable[[Callable[Concatenate[Body, RestP], Ended]], Callable[..., Ended]]:
    """Let a command take an option for each setting; its first parameter gets the body of the
    request. Ends the command where an option makes no sense.
    """
    options: type[Any] = dataclasses.make_dataclass(  # Any: made here
        "Options", list(_options_of(settings))
    )

    def wrap(command: Callable[Concatenate[Body, RestP], Ended]) -> Callable[..., Ended]:
        @functools.wraps(command)
        def run(given: Any, /, *args: RestP.args, **rest: RestP.kwargs) -> Ended:
            return command(_body_of(settings, given), *args, **rest)

        run.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
        return takes(options)(run)

    return wrap


def _options_of(settings: table.Settings) -> Iterator[tuple[str, Any, Any]]:
    for setting in table.settable(settings):
        if not isinstance(setting, table.Document):
            yield _option(setting.name, setting)
            continue
        for part in setting.parts:
            yield _option(f"{setting.name}_{part.name}", part)


def _option(name: str, setting: table.Setting) -> tuple[str, Any, Any]:
    help = setting.option_help or setting.about.replace("`", "")
    option = typer.Option(*setting.flags.split(), help=help, metavar=setting.metavar)
    is_number = isinstance(setting, table.Integer) and setting.null is None
    kind = setting.json_type if is_number or not isinstance(setting, table.Integer) else str
    return f"{name}_", Annotated[kind | None, option], dataclasses.field(default=None)


def _body_of(settings: table.Settings, given: object) -> Body:
    """What is sent: the options that were given."""
    body: Body = {}
    for setting in table.settable(settings):
        if isinstance(setting, table.Document):
            value: object = _document_of(setting, given)
        else:
            value = getattr(given, f"{setting.name}_")
        if value in (None, []):
            continue
        body[setting.name] = value
        if setting.null is not None:
            body[setting.name] = _value_or_null(setting, str(value))
        if setting.only_with is not None:
            body.setdefault(*setting.only_with)
    return body


def _value_or_null(setting: table.Setting, text: str) -> object:
    """An empty text stands for null, of a number ``unlimited``."""
    if not isinstance(setting, table.Integer):
        return text or None
    if text != UNLIMITED and not (text.isascii() and text.isdecimal()):
        screen.fail(UsageError(f"{setting.flags} must be a number or {UNLIMITED}"))
    return None if text == UNLIMITED else int(text)


def _document_of(document: table.Document, given: object) -> Body | None:
    """Its parts; without the one that tells its form, that which the others belong to."""
    found: Body = {}
    for part in document.parts:
        value = getattr(given, f"{document.name}_{part.name}_")
        if isinstance(part, table.ByName):
            value = _queues_of(part.option, value)
        if value not in (None, []):
            found[part.name] = value
    if found and document.tag:
        form = next(part.form for part in document.parts if part.name in found)
        found.setdefault(document.tag, form)
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
