"""One bug: which function it takes the place of, and which tests must notice.

    @planted("package.module:Class.function", "tests/…::test_that_fails") ──▶ Plant
    plant.put_in(patch) ──▶ the replacement is called, with the real one as its first argument

A replacement that does not fit the code would fail every test and prove nothing. So its parameters
are compared with those of the real function, its calls are counted, and an error that is a mistake
of its own is told apart from what a test found.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

# Any: what takes the place of a function of any type has arguments of any type.
Thing: TypeAlias = Any
Real: TypeAlias = Callable[..., Any]

MISTAKES: Final = (TypeError, AttributeError, NameError, ImportError)
_HERE: Final = str(Path(__file__).parent)
_WRAPPERS: Final = (staticmethod, classmethod)
_PACKAGES: Final = {"mqservice", "storage_engine", "analytics"}


class DoesNotFit(Exception):
    """The code is not any more what a bug was written for."""


class Firing:
    """How often a bug was met, and what was wrong with the bug itself.

    ``told``: a file that the process that runs the tests reads, when this is another one.
    """

    told: Path | None = None

    def __init__(self) -> None:
        self.count = 0
        self.mistakes: list[str] = []

    def met(self) -> None:
        self.count += 1
        if self.count == 1:
            self._tell("met")

    def note(self, exc: BaseException) -> None:
        """An error on its way out of a replacement. None of them raises any by itself."""
        raised_in = traceback.extract_tb(exc.__traceback__)[-1].filename
        if isinstance(exc, Exception) and raised_in.startswith(_HERE):
            self.mistakes.append(repr(exc))
            self._tell(repr(exc))

    def _tell(self, line: str) -> None:
        if self.told is not None:
            with self.told.open("a") as file:
                file.write(line.replace("\n", " ") + "\n")


class Plant(NamedTuple):
    """``tests``: node ids; one that fails is enough."""

    replacement: Callable[..., Any]  # Any: see Thing
    theme: str
    target: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.replacement.__name__

    def put_in(self, patch: pytest.MonkeyPatch) -> Firing:
        """From here on the bug is there. Raises ``DoesNotFit``."""
        owner, name, found = self._find()
        real = found.__func__ if isinstance(found, _WRAPPERS) else found
        self._check(real)
        firing = Firing()
        own = _counted(self.replacement, real, firing)
        patch.setattr(owner, name, type(found)(own) if isinstance(found, _WRAPPERS) else own)
        if inspect.ismodule(owner):
            for module in _importers(name, found):
                patch.setattr(module, name, own)
        return firing

    def check(self) -> None:
        """Raises ``DoesNotFit``."""
        found = self._find()[2]
        self._check(found.__func__ if isinstance(found, _WRAPPERS) else found)

    def _find(self) -> tuple[Any, str, Any]:  # Any: a module or class, and what is in it
        module, _, path = self.target.partition(":")
        *parents, name = path.split(".")
        try:
            owner: Any = importlib.import_module(module)
            for parent in parents:
                owner = getattr(owner, parent)
            found = inspect.getattr_static(owner, name)
        except (ImportError, AttributeError) as exc:
            raise DoesNotFit(f"{self.name}: there is no {self.target}") from exc
        return owner, name, found

    def _check(self, real: Callable[..., Any]) -> None:  # Any: see Thing
        if not callable(real):
            raise DoesNotFit(f"{self.name}: {self.target} is no function")
        if inspect.iscoroutinefunction(real) != inspect.iscoroutinefunction(self.replacement):
            raise DoesNotFit(f"{self.name}: only one of it and {self.target} is async")
        expected = _parameters(real)
        own = _parameters(self.replacement)[1:]
        if "." in self.target.partition(":")[2]:  # what a method calls itself does not matter
            expected, own = expected[1:], own[1:]
        if own != expected:
            raise DoesNotFit(f"{self.name}: {self.target} takes {expected}, not {own}")


def _importers(name: str, found: object) -> list[ModuleType]:
    """Modules of ours that have imported a function by its name already."""
    return [
        module
        for full_name, module in list(sys.modules.items())
        if full_name.partition(".")[0] in _PACKAGES and module.__dict__.get(name) is found
    ]


Planted: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]  # Any: see Thing


def planting(theme: str, plants: list[Plant]) -> Callable[..., Planted]:
    """A decorator that adds bugs of one theme to ``plants``."""

    def planted(target: str, *tests: str) -> Planted:
        def add(replacement: Callable[..., Any]) -> Callable[..., Any]:  # Any: see Thing
            plants.append(Plant(replacement, theme, target, tests))
            return replacement

        return add

    return planted


def _parameters(function: Callable[..., Any]) -> list[str]:  # Any: see Thing
    """Their names; those that may be left out with ``=``."""
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name if each.default is inspect.Parameter.empty else f"{each.name}="
        for each in parameters
    ]


def _counted(
    replacement: Callable[..., Any], real: Callable[..., Any], firing: Firing
) -> Callable[..., Any]:  # Any: see Thing
    if inspect.iscoroutinefunction(real):

        @functools.wraps(real)
        async def awaited(*arguments: Any, **named: Any) -> Any:  # Any: see Thing
            firing.met()
            try:
                return await replacement(real, *arguments, **named)
            except BaseException as exc:
                firing.note(exc)
                raise

        return awaited

    @functools.wraps(real)
    def called(*arguments: Any, **named: Any) -> Any:  # Any: see Thing
        firing.met()
        try:
            return replacement(real, *arguments, **named)
        except BaseException as exc:
            firing.note(exc)
            raise

    return called
