"""Random filters: trees that the oracle can walk, and the many ways to write one of them."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.storage_engine.filters.oracle import Tree, as_number

NAMES = ["a", "A", "region", "TAGS", "KEYS", "_x$1", "absent"]
OPERATORS = ["=", "<>", ">", ">=", "<", "<="]
SEARCHES = ["CONTAINS", "STARTSWITH", "ENDSWITH"]
NUMBERS = [
    "0", "1", "5", "17", "17L", "5.0", "5.", ".5", "5.5", "1e3", "1E+2", "1.5e-7", "007.5",
    "9007199254740993", "9223372036854775807", "9223372036854775807.0", "1e300",
]  # fmt: skip
TEXTS = ["eu", "us", "e", "it's", "''", "5", "5.0", "true", "é", "AND", "--", "\n"]
VALUES = [
    "", "eu", "europe", "it's", "''", "0", "5", "05", "+5", "-5", "5.0", "5.5", ".5", "17", "1e3",
    "1e999", "1_7", " 5", "5 ", "nan", "inf", "0x5", "true", "TRUE", "False", "falsely", "é",
    "9007199254740992", "9007199254740993", "9223372036854775808", "9" * 399, "9" * 401, "-",
    ".", "e", "--", "a=5",
]  # fmt: skip
# Anything a producer may send, within reason.
PROPERTIES = st.dictionaries(
    st.sampled_from(NAMES[:-1]),
    st.sampled_from(VALUES) | st.text(st.characters(exclude_categories=["C"]), max_size=5),
)
_SPACES = ["", "", " ", "\n", "\t\r\f ", "/* a * b **/", "-- c\n"]
_WORD_CHARS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.")

_properties = st.tuples(st.just("property"), st.sampled_from(NAMES))
_numbers = st.tuples(st.just("number"), st.sampled_from(NUMBERS))
_texts = st.tuples(st.just("text"), st.sampled_from(TEXTS))
_truths = st.tuples(st.just("truth"), st.sampled_from([True, False, None]))
_booleans = st.tuples(st.just("truth"), st.booleans())
_sign = st.sampled_from(["+", "-"])
_signed_number = st.tuples(st.just("sign"), _sign, _numbers)
_signed = st.tuples(st.just("sign"), _sign, _properties | _numbers | _signed_number)
_ordered = _properties | _numbers | _signed


def _is_bounded(between: Tree) -> bool:
    """Not two literals the wrong way round, which is refused."""
    low, high = (_literal_value(part) for part in between[2:4])
    return low is None or high is None or low <= high


def _literal_value(tree: Tree) -> Any:  # a fraction, or None
    if tree[0] == "sign":
        number = _literal_value(tree[2])
        return number if number is None or tree[1] == "+" else -number
    return as_number(tree[1].rstrip("L").encode()) if tree[0] == "number" else None


_simple = (
    _properties
    | _truths
    | st.tuples(st.just("compare"), st.sampled_from(OPERATORS), _ordered, _ordered)
    | st.tuples(
        st.just("compare"),
        st.sampled_from(OPERATORS[:2]),
        _ordered | _texts,
        _ordered | _texts,
    )
    | st.tuples(
        st.just("compare"),
        st.sampled_from(OPERATORS[:2]),
        _properties | _texts | _booleans,
        _properties | _texts | _booleans,
    )
    | st.tuples(st.just("null"), _ordered | _texts | _truths, st.booleans())
    | st.tuples(st.just("between"), _ordered, _ordered, _ordered, st.booleans()).filter(_is_bounded)
    | st.tuples(
        st.just("in"),
        st.sampled_from(NAMES),
        st.lists(_texts | _numbers | _signed_number, min_size=1, max_size=4),
        st.booleans(),
    )
    | st.tuples(
        st.just("search"),
        st.sampled_from(SEARCHES),
        st.sampled_from(NAMES),
        st.sampled_from([*TEXTS, ""]),
        st.booleans(),
    )
)


def _larger(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    several = st.lists(parts, min_size=2, max_size=4)
    known = parts.filter(lambda tree: tree != ("truth", None))
    return (
        st.tuples(st.just("not"), parts)
        | st.tuples(st.sampled_from(["and", "or"]), several)
        | st.tuples(st.just("compare"), st.sampled_from(OPERATORS[:2]), known, known)
        | st.tuples(st.just("null"), parts, st.booleans())
    )


# Conditions of every kind within the limits.
TREES: st.SearchStrategy[Tree] = st.recursive(_simple, _larger, max_leaves=8)

# How strongly a tree binds; one that binds weaker than its place asks for needs parentheses.
_STRENGTHS = {"or": 0, "and": 1, "not": 2, "compare": 3, "null": 3, "between": 3, "in": 3}
_STRENGTHS["search"] = 3
_OPERAND = 4


def spelled(tree: Tree, seed: int) -> str:
    """One of the texts that mean ``tree``: white space, comments, case, parentheses at random.

    A seed and not draws of Hypothesis: hundreds of them for each text would take all the time.
    """
    random = Random(seed)
    text = ""
    for token in _tokens(random, tree, 0):
        space = random.choice(_SPACES)
        clash = text[-1:] in _WORD_CHARS and token[0] in _WORD_CHARS
        # Two signs in a row would begin a comment.
        if (not space and clash) or (text[-1:] == "-" == (space or token)[0]):
            space = " "
        text += space + token
    return text


def _tokens(random: Random, tree: Tree, strength: int) -> list[str]:
    own = _STRENGTHS.get(tree[0], _OPERAND)
    if own < strength or random.random() < 0.1:
        return ["(", *_bare_tokens(random, tree), ")"]
    return _bare_tokens(random, tree)


def _bare_tokens(random: Random, tree: Tree) -> list[str]:
    def word(keyword: str) -> str:
        return random.choice([keyword, keyword.lower(), keyword.capitalize()])

    def maybe_not(is_negated: bool) -> list[str]:
        return [word("NOT")] if is_negated else []

    def operand(part: Tree) -> list[str]:
        return _tokens(random, part, _OPERAND)

    kind, *parts = tree
    if kind in ("property", "number"):
        return [parts[0]]
    if kind == "text":
        return ["'" + parts[0].replace("'", "''") + "'"]
    if kind == "truth":
        return [word({True: "TRUE", False: "FALSE", None: "NULL"}[parts[0]])]
    if kind == "sign":
        return [parts[0], *operand(parts[1])]
    if kind == "compare":
        return [*operand(parts[1]), parts[0], *operand(parts[2])]
    if kind == "null":
        return [*operand(parts[0]), word("IS"), *maybe_not(parts[1]), word("NULL")]
    if kind == "between":
        middle = [*maybe_not(parts[3]), word("BETWEEN"), *operand(parts[1]), word("AND")]
        return [*operand(parts[0]), *middle, *operand(parts[2])]
    if kind == "in":
        values = [token for part in parts[1] for token in [",", *_literal(part)]]
        return [parts[0], *maybe_not(parts[2]), word("IN"), "(", *values[1:], ")"]
    if kind == "search":
        text = "'" + parts[2].replace("'", "''") + "'"
        return [parts[1], *maybe_not(parts[3]), word(parts[0]), text]
    if kind == "not":
        return [word("NOT"), *_tokens(random, parts[0], _STRENGTHS["not"])]
    joined = [
        token
        for part in parts[0]
        for token in [word(kind.upper()), *_tokens(random, part, _STRENGTHS[kind] + 1)]
    ]
    return joined[1:]


def _literal(tree: Tree) -> list[str]:
    if tree[0] == "sign":
        return [tree[1], *_literal(tree[2])]
    return [tree[1]] if tree[0] == "number" else ["'" + tree[1].replace("'", "''") + "'"]
