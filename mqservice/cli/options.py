"""Options that several commands share, declared once.

@dataclass Settings ──▶ @takes(Settings) ──▶ command(settings, name, …) with an option a field
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

KindT = TypeVar("KindT")
RestP = ParamSpec("RestP")


def takes(
    kind: type[KindT],
) -> Callable[[Callable[Concatenate[KindT, RestP], None]], Callable[..., None]]:
    """Let a command take the fields of a dataclass as its options, before its own.

    Its first parameter gets the dataclass. Each field is annotated as a parameter of typer would
    be, and has a default.
    """

    def wrap(command: Callable[Concatenate[KindT, RestP], None]) -> Callable[..., None]:
        fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # reason: no bound says dataclass
        names = [field.name for field in fields]

        @functools.wraps(command)
        def run(**values: Any) -> None:  # reason: typer gives each parameter its type
            shared = kind(**{name: values.pop(name) for name in names})
            command(shared, **values)  # type: ignore[call-arg]  # reason: by name, as typer does

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
