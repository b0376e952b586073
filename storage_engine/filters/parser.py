"""From the text of an SQL92 filter to its tree; recursive descent with a counted depth.

    text ──▶ tokenize ──▶ [parse] ──▶ Node

    condition   = conjunction { OR conjunction }
    conjunction = term { AND term }
    term        = NOT term | comparison
    comparison  = operand [ ( = | <> | > | >= | < | <= ) operand
                          | IS [NOT] NULL
                          | [NOT] BETWEEN operand AND operand
                          | [NOT] IN ( literal { , literal } )
                          | [NOT] ( CONTAINS | STARTSWITH | ENDSWITH ) text ]
    operand     = { + | - } ( name | number | text | TRUE | FALSE | NULL | ( condition ) )

It differs from RocketMQ's SelectorParser where that one misleads: NOT binds weaker than a
comparison, as in SQL (there ``NOT a = 5`` is ``(NOT a) = 5``, which nothing matches); what follows
the expression is refused, not ignored; ``a = b = c`` needs parentheses; IN takes numbers too; a
comparison of literals whose types never agree is refused. As there, the search for an empty text is
FALSE, also with NOT before CONTAINS, and a text may be searched instead of a property.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from storage_engine.errors import FilterInvalid
from storage_engine.filters.limits import DEPTH_MAX, NODES_MAX, refusal, shown
from storage_engine.filters.syntax import (
    And,
    Between,
    Comparison,
    Membership,
    Negation,
    Node,
    NullTest,
    Number,
    Or,
    Property,
    Search,
    Signed,
    Text,
    Truth,
)
from storage_engine.filters.tokens import LONG_MAX, Token, Word, tokenize

_EQUALITIES: Final = (Word.EQUAL, Word.UNEQUAL)
_ORDERINGS: Final = (Word.GREATER, Word.GREATER_EQUAL, Word.LESS, Word.LESS_EQUAL)
_SEARCHES: Final = (Word.CONTAINS, Word.STARTSWITH, Word.ENDSWITH)
_NEGATABLE: Final = (Word.BETWEEN, Word.IN, *_SEARCHES)
_COMPARISONS: Final = (*_EQUALITIES, *_ORDERINGS, Word.IS, Word.NOT, *_NEGATABLE)
_SIGNS: Final = (Word.PLUS, Word.MINUS)
_TRUTHS: Final = {Word.TRUE: True, Word.FALSE: False, Word.NULL: None}
_UNKNOWN_WORDS: Final = {
    "LIKE": "write CONTAINS, STARTSWITH or ENDSWITH",
    "ESCAPE": "there is no LIKE; write CONTAINS, STARTSWITH or ENDSWITH",
}


def parse(text: str) -> Node:
    """The tree of a condition.

    Raises:
        FilterInvalid: the text is no condition, or is nested too deeply or has too many parts.
    """
    return _Parser(tokenize(text)).parse()


class _Parser:
    """Stands before one token; each method takes those of its rule and leaves the next."""

    def __init__(self, tokens: Iterator[Token]) -> None:
        self._tokens = tokens
        self._token = next(tokens)
        self._node_count = 0

    def parse(self) -> Node:
        start = self._token
        node = _as_condition(self._condition(0), start)
        if not self._is_at(Word.END):
            raise self._unexpected("AND, OR or the end")
        return node

    def _condition(self, depth: int) -> Node:
        """Terms joined by AND and those by OR; a lone operand stays what it is."""
        choices: list[Node] = []
        terms: list[Node] = []
        while True:
            start = self._token
            node = self._term(depth)
            is_and, is_or = self._is_at(Word.AND), self._is_at(Word.OR)
            if not (is_and or is_or or terms or choices):
                return node
            terms.append(_as_condition(node, start))
            if not is_and:
                choices.append(_joined(And, terms))
                terms = []
                if not is_or:
                    return _joined(Or, choices)
            self._use_node()

    def _term(self, depth: int) -> Node:
        if not self._is_at(Word.NOT):
            return self._comparison(depth)
        self._check_depth(depth + 1)
        self._use_node()
        start = self._token
        return Negation(_as_condition(self._term(depth + 1), start))

    def _comparison(self, depth: int) -> Node:
        start = self._token
        left = self._operand(depth)
        if not self._is_at(*_COMPARISONS):
            return left
        node = self._compared(left, start, depth)
        if self._is_at(*_COMPARISONS):
            raise refusal(
                shown(self._token.written),
                self._token.at,
                "put a comparison that is itself compared into parentheses",
            )
        return node

    def _compared(self, left: Node, start: Token, depth: int) -> Node:
        """The comparison whose left side has been read and began at ``start``."""
        is_negated = self._accept(Word.NOT)
        if is_negated and not self._is_at(*_NEGATABLE):
            raise self._unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        operator = self._use_node()
        word = operator.word
        if word is Word.IS:
            is_negated = self._accept(Word.NOT)
            self._expect(Word.NULL)
            return NullTest(left, is_negated)
        if word is Word.BETWEEN:
            return self._between(left, start, is_negated, depth)
        if word is Word.IN:
            return self._membership(_name(left, start, word), is_negated)
        if word in _SEARCHES:
            token = self._expect(Word.TEXT)
            self._count_node(token)
            text = token.text
            if isinstance(left, Text):
                return Truth(bool(text) and _is_found(word, left.value, text) is not is_negated)
            return Search(word, _name(left, start, word), text, is_negated)
        right_start = self._token
        right = self._operand(depth)
        if word in _ORDERINGS:
            _check_ordered(left, start)
            _check_ordered(right, right_start)
        else:
            _check_equated(left, start, right, right_start)
        return Comparison(word, left, right)

    def _between(self, operand: Node, start: Token, is_negated: bool, depth: int) -> Node:
        low_start = self._token
        low = self._operand(depth)
        self._expect(Word.AND)
        high_start = self._token
        high = self._operand(depth)
        for node, token in ((operand, start), (low, low_start), (high, high_start)):
            _check_ordered(node, token)
        if isinstance(low, Number) and isinstance(high, Number) and low.value > high.value:
            raise refusal(
                f"{low.value!r} as the lower bound of BETWEEN",
                low_start.at,
                f"it must not exceed the upper bound, {high.value!r}",
            )
        return Between(operand, low, high, is_negated)

    def _membership(self, name: str, is_negated: bool) -> Node:
        self._expect(Word.OPEN)
        values = [self._literal()]
        while self._accept(Word.COMMA):
            values.append(self._literal())
        self._expect(Word.CLOSE)
        return Membership(name, tuple(values), is_negated)

    def _literal(self) -> Text | Number:
        is_signed, is_negative = self._signs()
        token = self._token
        if token.word is Word.NUMBER:
            number = self._use_node().number
            return _ranged(Number(-number if is_negative else number), token)
        if is_signed:
            raise self._unexpected("a number")
        if token.word is not Word.TEXT:
            raise self._unexpected("a string or a number")
        return Text(self._use_node().text)

    def _operand(self, depth: int) -> Node:
        first = self._token
        is_signed, is_negative = self._signs()
        token = self._token
        node: Node
        match token.word:
            case Word.NAME:
                node = Property(self._use_node().text)
            case Word.NUMBER:
                node = Number(self._use_node().number)
            case Word.TEXT:
                node = Text(self._use_node().text)
            case Word.TRUE | Word.FALSE | Word.NULL:
                node = Truth(_TRUTHS[self._use_node().word])
            case Word.OPEN:
                self._check_depth(depth + 1)
                self._next_token()
                node = self._condition(depth + 1)
                self._expect(Word.CLOSE)
            case _:
                raise self._unexpected("a property, a number, a string, TRUE, FALSE, NULL or (")
        if is_signed:
            node = _signed(node, is_negative, first)
        return _ranged(node, token) if isinstance(node, Number) else node

    def _signs(self) -> tuple[bool, bool]:
        """Whether signs stand here, and whether they make the opposite; they are taken."""
        is_signed = is_negative = False
        while self._is_at(*_SIGNS):
            is_signed = True
            is_negative ^= self._use_node().word is Word.MINUS
        return is_signed, is_negative

    def _is_at(self, *words: Word) -> bool:
        return self._token.word in words

    def _next_token(self) -> Token:
        """The token that stands here; none follows END, which nobody takes."""
        token = self._token
        self._token = next(self._tokens)
        return token

    def _accept(self, word: Word) -> bool:
        """Whether ``word`` stands here; if so it is taken."""
        if not self._is_at(word):
            return False
        self._next_token()
        return True

    def _expect(self, word: Word) -> Token:
        if not self._is_at(word):
            raise self._unexpected(word.value)
        return self._next_token()

    def _use_node(self) -> Token:
        self._count_node(self._token)
        return self._next_token()

    def _count_node(self, token: Token) -> None:
        self._node_count += 1
        if self._node_count > NODES_MAX:
            raise refusal(
                shown(token.written),
                token.at,
                f"at most {NODES_MAX} names, literals, operators and signs are allowed",
            )

    def _check_depth(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise refusal(
                shown(self._token.written),
                self._token.at,
                f"parentheses and NOTs may be nested at most {DEPTH_MAX} deep",
            )

    def _unexpected(self, wanted: str) -> FilterInvalid:
        token = self._token
        what = "the end" if token.word is Word.END else shown(token.written)
        hint = _UNKNOWN_WORDS.get(token.written.upper(), f"expected {wanted}")
        if token.word is Word.EQUAL:
            hint += "; write a single = for equal, <> for unequal"
        elif token.word in _SIGNS:
            hint += "; there is no arithmetic, and names have only letters, digits, _ and $"
        return refusal(what, token.at, hint)


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    """One part as it is, or several as one node, with those of its own kind taken apart."""
    if len(parts) == 1:
        return parts[0]
    flat: list[Node] = []
    for part in parts:
        if isinstance(part, kind):
            flat += part.parts
        else:
            flat.append(part)
    return kind(tuple(flat))


def _signed(node: Node, is_negative: bool, start: Token) -> Node:
    match node:
        case Number(value):
            return Number(-value if is_negative else value)
        case Property(name):
            return Signed(name, is_negative)
        case Signed(name, was_negative):
            return Signed(name, is_negative ^ was_negative)
    raise refusal(shown(start.written), start.at, "only a number or a property can have a sign")


def _ranged(node: Number, token: Token) -> Number:
    """``node`` with its value in the one form that it has, see ``Number``."""
    value = node.value
    if isinstance(value, int):
        if not -LONG_MAX - 1 <= value <= LONG_MAX:
            raise refusal(
                shown(token.written),
                token.at,
                f"an integer is at most {LONG_MAX}; write it as 1e20",
            )
    # Not the least long, whose opposite is none.
    elif abs(value) <= LONG_MAX and value.is_integer():
        return Number(int(value))
    return node


def _is_found(word: Word, searched: str, text: str) -> bool:
    """Whether ``searched`` contains ``text``, or begins or ends with it, as ``word`` says."""
    if word is Word.CONTAINS:
        return text in searched
    return searched.startswith(text) if word is Word.STARTSWITH else searched.endswith(text)


def _as_condition(node: Node, start: Token) -> Node:
    if isinstance(node, Text | Number | Signed):
        raise refusal(shown(start.written), start.at, "a condition is needed, such as a = 5")
    return node


def _name(node: Node, start: Token, word: Word) -> str:
    if not isinstance(node, Property):
        raise refusal(shown(start.written), start.at, f"{word} must follow the name of a property")
    return node.name


def _check_ordered(node: Node, start: Token) -> None:
    if not isinstance(node, Property | Signed | Number):
        raise refusal(
            shown(start.written),
            start.at,
            "> >= < <= and BETWEEN compare numbers, or properties that hold a number",
        )


def _check_equated(left: Node, left_start: Token, right: Node, right_start: Token) -> None:
    for node, start in ((left, left_start), (right, right_start)):
        if node == Truth(None):
            raise refusal(
                "NULL", start.at, "nothing is equal to NULL; write IS NULL or IS NOT NULL"
            )
    is_number = [isinstance(node, Number | Signed) for node in (left, right)]
    is_truth = [not isinstance(node, Property | Text | Number | Signed) for node in (left, right)]
    if (is_number[0] and is_truth[1]) or (is_truth[0] and is_number[1]):
        raise refusal(
            shown(right_start.written), right_start.at, "a number is neither TRUE nor FALSE"
        )
