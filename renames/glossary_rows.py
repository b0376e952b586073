"""Writes glossary.tsv from the rows below: python glossary_rows.py. Rows are grouped by kind and scope."""
from pathlib import Path

ROWS: list[tuple[str, str, str, str, str]] = []


def rows(kind: str, scope: str, text: str) -> None:
    for line in text.replace(";", "\n").splitlines():
        line = line.strip()
        if not line:
            continue
        pair, _, why = line.partition("#")
        old, new = pair.split()
        ROWS.append((kind, scope, old, new, why.strip()))


def m(scope: str, text: str) -> None: rows("module", scope, text)
def c(scope: str, text: str) -> None: rows("class", scope, text)
def f(scope: str, text: str) -> None: rows("function", scope, text)
def k(scope: str, text: str) -> None: rows("constant", scope, text)
def me(scope: str, text: str) -> None: rows("method", scope, text)
def a(scope: str, text: str) -> None: rows("attribute", scope, text)
def p(scope: str, text: str) -> None: rows("parameter", scope, text)
def w(scope: str, text: str) -> None: rows("word", scope, text)
def t(scope: str, text: str) -> None: rows("test", scope, text)
def pl(scope: str, text: str) -> None: rows("plant", scope, text)
def l(scope: str, text: str) -> None: rows("local", scope, text)


exec(compile((Path(__file__).with_name("glossary_src.py")).read_text(), "glossary_src.py", "exec"))
Path(__file__).with_name("glossary.tsv").write_text(
    "kind\tscope\told\tnew\twhy\n" + "".join("\t".join(row) + "\n" for row in ROWS)
)
print(len(ROWS))
