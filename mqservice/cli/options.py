"""Options that several commands share, declared once.

@dataclass Settings ──▶ @takes(Settings) ──▶ command(settings, name, …) with an option a field
command(target, name, …) ──▶ [connected] ──▶ --base-url, --api-key, --namespace, --profile
@asks("Delete {name}?") ──▶ [connected] ──▶ --yes, or the question
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, Final, ParamSpec, TypeVar, get_type_hints

import typer

from mqservice.cli import screen
from mqservice.cli.target import (
    BaseUrlOption,
    KeyOption,
    NamespaceOption,
    ProfileOption,
    TenantTarget,
)

KindT = TypeVar("KindT")
RestP = ParamSpec("RestP")
Ended = TypeVar("Ended")  # what a command returns: None, or the coroutine that it is
_QUESTION: Final = "question"
SureOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def takes(
    kind: type[KindT],
) -> Callable[[Callable[Concatenate[KindT, RestP], Ended]], Callable[..., Ended]]:
    """Let a command take the fields of a dataclass as its options, before its own.

    Its first parameter gets the dataclass. Each field is annotated as a parameter of typer would
    be, and has a default.
    """

    def wrap(command: Callable[Concatenate[KindT, RestP], Ended]) -> Callable[..., Ended]:
        fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # reason: no bound says dataclass
        names = [field.name for field in fields]

        @functools.wraps(command)
        def run(**values: Any) -> Any:  # reason: typer gives each parameter its type
            shared = kind(**{name: values.pop(name) for name in names})
            return command(shared, **values)  # type: ignore[call-arg]  # reason: by name, as typer does

        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        hints = get_type_hints(kind, include_extras=True)
        options = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in fields
        ]
        arguments = [each for each in own if each.default is inspect.Parameter.empty]
        others = [each for each in own if each.default is not inspect.Parameter.empty]
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in (*arguments, *options, *others)
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return wrap


def asks(question: str) -> Callable[[Callable[..., Ended]], Callable[..., Ended]]:
    """Let a command ask first, unless ``--yes`` is given. ``question`` may name its parameters."""

    def wrap(command: Callable[..., Ended]) -> Callable[..., Ended]:
        setattr(command, _QUESTION, question)
        return command

    return wrap


def connected(command: Callable[..., Any]) -> Callable[..., None]:
    """A command as typer is to see it: options say what its parameter ``target`` gets.

    A coroutine is run to its end; what it returns is the exit code.
    """
    parameters = dict(inspect.signature(command, eval_str=True).parameters)
    target = parameters.pop("target", None)
    if target is None:
        return command
    question = getattr(command, _QUESTION, None)
    shared: dict[str, Any] = {} if question is None else {"is_sure": SureOption}
    shared |= {"base_url": BaseUrlOption, "api_key": KeyOption}
    if target.annotation is not TenantTarget:
        shared["namespace"] = NamespaceOption
    shared["profile"] = ProfileOption

    @functools.wraps(command)
    def run(**values: Any) -> None:  # reason: as above
        given = {name: values.pop(name) for name in shared}
        is_sure = given.pop("is_sure", True)
        values["target"] = screen.target_of(**given)
        if not is_sure:
            typer.confirm(str(question).format_map(values), abort=True, err=True)
        work = command(**values)
        if inspect.iscoroutine(work):
            screen.run(work)

    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name == "is_sure" else None,
            annotation=kind,
        )
        for name, kind in shared.items()
    ]
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters.values()]
    run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
    return run
