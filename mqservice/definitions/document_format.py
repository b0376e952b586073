"""A document as JSON or YAML; both are parsed to JSON.

body, form ──▶ [json_of] ──▶ body of JSON ──▶ documents.read_document
                  └── no YAML ──▶ Problem with line and column
faults of the document ──▶ [with_line_numbers] ─▶ the same, each with its line of the YAML
DefinitionsOut ──▶ [serialize] ─▶ body
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from pydantic import BaseModel

from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.wire import refused
from mqservice.lib.yaml_text import YamlFault, find_places, read_yaml, write_yaml


class Form(enum.StrEnum):
    JSON = "json"
    YAML = "yaml"

    @property
    def media_type(self) -> str:
        return f"application/{self.value}"


# RFC 9512, and what was usual before it.
YAML_TYPES: Final = frozenset(
    {Form.YAML.media_type, "application/x-yaml", "text/yaml", "text/x-yaml"}
)
_YAML_SUFFIXES: Final = (".yaml", ".yml")
_JSON_BEGINS: Final = (b"{", b"[")


def form_of_type(media_type: str | None) -> Form:
    """By a Content-Type without its parameters; what is not YAML is read as JSON."""
    return Form.YAML if (media_type or "").strip().lower() in YAML_TYPES else Form.JSON


def form_of_file(name: str, content: bytes) -> Form:
    """By the end of a file's name, else by how its content begins."""
    if name.lower().endswith(_YAML_SUFFIXES):
        return Form.YAML
    is_json = name.lower().endswith(".json") or content.lstrip().startswith(_JSON_BEGINS)
    return Form.JSON if is_json else Form.YAML


def serialize(document: BaseModel, form: Form) -> bytes:
    """In lines that can be compared."""
    if form is Form.YAML:
        return write_yaml(document.model_dump(mode="json"))
    return msgspec.json.format(document.model_dump_json().encode(), indent=2) + b"\n"


def json_of(body: bytes, form: Form) -> bytes:
    """Raises Problem: it is no YAML, or more than JSON can say. JSON comes back as it is."""
    if form is Form.JSON:
        return body
    try:
        return msgspec.json.encode(read_yaml(body))
    except YamlFault as fault:
        raise refused("", str(fault)) from None


@contextmanager
def with_line_numbers(body: bytes, form: Form) -> Iterator[None]:
    """Lets faults of a YAML ``body``, which ``json_of`` has read, say in which line they are."""
    try:
        yield
    except Problem as problem:
        if form is Form.JSON or not any(item.pointer for item in problem.errors):
            raise
        places = find_places(body, [item.pointer for item in problem.errors if item.pointer])
        errors = [_placed(item, places.get(item.pointer)) for item in problem.errors]
        line, column = places[next(item.pointer for item in problem.errors if item.pointer)]
        raise Problem(
            problem.status,
            problem.code,
            f"line {line}, column {column}: {problem.detail}",
            retryable=problem.retryable,
            retry_after_ms=problem.retry_after_ms,
            errors=errors,
            stored=problem.stored,
        ) from None


def _placed(item: ProblemItem, place: tuple[int, int] | None) -> ProblemItem:
    if place is None:
        return item
    detail = f"line {place[0]}, column {place[1]}: {item.detail}"
    return ProblemItem(item.pointer, item.code, detail)
