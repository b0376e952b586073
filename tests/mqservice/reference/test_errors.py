"""The table of codes: complete, without ghosts, and the same in the page and in the documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from mqservice.lib.problem import CODES, slug
from mqservice.protocol.problem_texts import FRAME_MEANINGS, ITEM_MEANINGS, MEANINGS, RESERVED
from mqservice.reference.error_page import error_page

ROOT = Path(__file__).resolve().parents[3]
TABLES = {"problem.py", "problem_texts.py"}
# Quoted words in capitals that are no codes of refusals where they stand.
WORD = re.compile(r'"([A-Z]{2,}(?:_[A-Z0-9]+)*)"')
RAISERS = {
    "of", "Fault", "ProblemItem", "TagFailure", "CommandRefused", "refused", "_fault", "_refusal",
}  # fmt: skip
CODE = re.compile(r"[A-Z]{3,}(_[A-Z0-9]+)*")


def sources() -> list[str]:
    return [
        path.read_text()
        for path in (ROOT / "mqservice").rglob("*.py")
        if path.name not in TABLES and "reference" not in path.parts and "cli" not in path.parts
    ]


def raised_in(tree: ast.Module) -> Iterator[str]:
    """Texts in the form of a code among the arguments of what makes refusals."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
        if name not in RAISERS:
            continue
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(given, ast.Constant) and CODE.fullmatch(str(given.value)):
                yield str(given.value)


def test_the_page_is_what_the_table_makes() -> None:
    made = (ROOT / "docs" / "errors.md").read_text()
    assert made == error_page(), "run: python -m mqservice.reference.error_page > docs/errors.md"


def test_every_code_has_a_meaning_and_a_remedy() -> None:
    assert MEANINGS.keys() == CODES.keys()
    assert all(meaning.endswith(".") and remedy.endswith(".") for meaning, remedy in (
        MEANINGS.values()
    ))  # fmt: skip


def test_every_code_of_the_table_is_used_or_reserved() -> None:
    used = {word for text in sources() for word in WORD.findall(text)}
    unused = CODES.keys() - used
    assert unused == RESERVED, "take what is used now out of RESERVED, and put in what is not"


def test_every_code_that_is_raised_is_in_a_table() -> None:
    raised = {code for text in sources() for code in raised_in(ast.parse(text))}
    assert {"BAD_REQUEST", "TOPIC_NOT_FOUND", "UNKNOWN_OP", "INVALID_JSON"} <= raised
    assert raised - CODES.keys() - ITEM_MEANINGS.keys() - FRAME_MEANINGS.keys() == set()


def test_every_code_of_single_faults_is_used() -> None:
    used = {word for text in sources() for word in WORD.findall(text)}
    assert (ITEM_MEANINGS.keys() | FRAME_MEANINGS.keys()) - used == set()


@pytest.mark.parametrize("code", CODES)
def test_type_of_each_problem_leads_to_its_page(code: str) -> None:
    page = Client().get(f"/errors/{slug(code)}")
    assert page.status_code == 200
    text = page.content.decode()
    assert code in text
    assert MEANINGS[code].remedy.split("`")[0].strip()[:30].replace("'", "&#x27;") in text
