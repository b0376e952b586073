#!/usr/bin/env python3
"""Applies glossary.tsv to a worktree: names of modules, classes, functions, fields, tests.

    python apply_glossary.py WORKTREE [--kind module,class,…] [--check] [--table FILE]

Run it with the worktree's own Python (``WORKTREE/.venv/bin/python``): names are resolved with the types that
mypy finds, so a common word is renamed only where it is the name in the table. Rows are matched by the names
*before* the glossary; scopes may be written with old or new module names. What is done already is skipped, so
it can run again on a newer main; rows that are neither done nor to be found are listed ("not found"), as are
rows whose new name is taken ("taken"), and uses whose type is Any and that no row settles ("unresolved").

kinds   module     scope = package             parked -> long_poll
        class, function, constant   scope = module
        method, attribute           scope = module.Class[, module.Class …]; * = every class of ours that has it
        parameter  scope = module.function or module.Class.method
        test       scope = file               a test function (also where strings name it)
        plant      scope = module             a planted bug (also in evidence/)
        local      scope = file               every identifier of that name in the file (last resort)
        word       scope = glob of files      a plain word: settings, metrics, commands, CSS classes
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import hashlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOTS = ("mqservice", "storage_engine", "analytics", "tests", "bench", "deploy")
TEXTS = (".md", ".toml", ".yml", ".yaml", ".html", ".sh", ".cfg", ".txt", ".json", ".po", ".js", ".ts", ".css", ".py")
WIRE = {
    "msgspec.Struct", "pydantic.main.BaseModel", "ninja.schema.Schema", "django.db.models.base.Model",
    "django.forms.forms.Form", "django.forms.forms.BaseForm",
}
PEOPLE = ("docs/", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


class Row:
    def __init__(self, line: int, kind: str, scope: str, old: str, new: str, why: str) -> None:
        self.line, self.kind, self.scope, self.old, self.new, self.why = line, kind, scope, old, new, why
        self.state = "not found"

    def __str__(self) -> str:
        return f"{self.kind:10} {self.scope} {self.old} -> {self.new} (line {self.line})"


def read_table(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith(("#", "kind\t")):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) < 4:
            raise SystemExit(f"{path}:{number}: fewer than four columns: {line}")
        rows.append(Row(number, cells[0], cells[1], cells[2], cells[3], cells[4] if len(cells) > 4 else ""))
    seen: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = (row.kind, row.scope, row.old)
        if key in seen:
            raise SystemExit(f"row {row.line} repeats row {seen[key].line}: {row}")
        seen[key] = row
    return rows


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *args: str) -> str:
        return subprocess.run(["git", *args], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def files(self) -> list[str]:
        return [f for f in self.git("ls-files").splitlines() if (self.root / f).is_file() and not (self.root / f).is_symlink()]

    def pythons(self) -> list[str]:
        return [f for f in self.files() if f.endswith(".py") and (f.split("/")[0] in ROOTS or "/" not in f)]

    def texts(self) -> list[str]:
        named = ("Makefile", "Dockerfile", ".ci/run", ".dockerignore", ".gitignore")
        return [
            f for f in self.files()
            if (f.endswith(TEXTS) or f in named or f.endswith(("Makefile", "Dockerfile")) or f.startswith((".ci/", "deploy/")))
            and not f.endswith(".lock") and (self.root / f).stat().st_size < 4_000_000
        ]


def module_of(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


# ---------------------------------------------------------------------------------------------- modules


def dotted_map(rows: list[Row]) -> list[tuple[str, str]]:
    return [(f"{r.scope}.{r.old}", f"{r.scope}.{r.new}") for r in rows if r.kind == "module"]


class Modules:
    """Old and new dotted names of modules; scopes of other rows are brought to what the tree has now."""

    def __init__(self, rows: list[Row]) -> None:
        self.pairs = dotted_map(rows)

    def newest(self, dotted: str) -> str:
        for old, new in self.pairs:
            if dotted == old or dotted.startswith(old + "."):
                return new + dotted[len(old):]
        return dotted

    def oldest(self, dotted: str) -> str:
        for old, new in self.pairs:
            if dotted == new or dotted.startswith(new + "."):
                return old + dotted[len(new):]
        return dotted


def rename_modules(tree: Tree, rows: list[Row]) -> None:
    moved: list[Row] = []
    for row in rows:
        if row.kind != "module":
            continue
        base = tree.root / row.scope.replace(".", "/")
        old, new = base / f"{row.old}.py", base / f"{row.new}.py"
        if not old.exists():  # a package?
            old, new = base / row.old, base / row.new
            if not old.is_dir() or not any(old.glob("*.py")):
                old, new = base / f"{row.old}.py", base / f"{row.new}.py"
        if new.exists() and not old.exists():
            row.state = "done"
            continue
        if not old.exists():
            continue
        if new.exists():
            row.state = "taken"
            continue
        tree.git("mv", str(old.relative_to(tree.root)), str(new.relative_to(tree.root)))
        row.state = "renamed"
        moved.append(row)
    rewrite_module_names(tree, [row for row in rows if row.kind == "module" and row.state in ("renamed", "done")])


def rewrite_module_names(tree: Tree, rows: list[Row]) -> None:
    if not rows:
        return
    packages = {(r.scope, r.old): r for r in rows}
    dotted = {f"{r.scope}.{r.old}": f"{r.scope}.{r.new}" for r in rows}
    dotted_re = re.compile(r"(?<![\w.])(" + "|".join(re.escape(d) for d in sorted(dotted, key=len, reverse=True)) + r")(?=\b)(?!\()")
    stems: dict[str, set[str]] = defaultdict(set)  # every file name -> directories that have it
    for f in tree.files():
        if f.endswith(".py"):
            stems[f.rsplit("/", 1)[-1]].add(f.rsplit("/", 1)[0] if "/" in f else "")
    by_file: dict[str, list[Row]] = defaultdict(list)
    for r in rows:
        by_file[f"{r.old}.py"].append(r)
    path_re = re.compile(r"(?<![\w/])((?:[\w.*{}-]+/)*)(" + "|".join(re.escape(n) for n in by_file) + r")(?![\w])")

    def path_sub(match: re.Match[str], near: str) -> str:
        prefix, name = match.group(1), match.group(2)
        if placeholder := re.match(r"\{(\w+)\}/(.*)", prefix):  # f"{_TESTS}/test_x.py"
            value = re.search(rf'^{placeholder.group(1)}\b[^=\n]*= "([^"]+)"', match.string, re.MULTILINE)
            for r in by_file[name] if value else ():
                if f"{value.group(1)}/{placeholder.group(2)}".rstrip("/") == r.scope.replace(".", "/"):  # type: ignore[union-attr]
                    return f"{prefix}{r.new}.py"
            return match.group(0)
        for r in by_file[name]:
            folder = r.scope.replace(".", "/")
            if prefix:
                if ("/" + folder + "/").endswith("/" + prefix.lstrip("./")):
                    return f"{prefix}{r.new}.py"
            elif len(by_file[name]) == 1 and (not stems.get(name) or near.startswith(folder)) and near.startswith(folder.split("/")[0]):
                return f"{r.new}.py"
        return match.group(0)

    for f in tree.texts():
        path = tree.root / f
        if f in HISTORY:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        new = dotted_re.sub(lambda m: dotted[m.group(1)], text)
        new = path_re.sub(lambda m: path_sub(m, f), new)
        if f.endswith(".md") and f not in HISTORY:
            new = "".join(
                line if is_style_table(f, line) else bare_modules(line, by_file, stems) for line in new.splitlines(keepends=True)
            )
        if f.startswith("tests/torture/"):
            for r in rows:
                if r.scope == "tests.storage_engine" and r.old.startswith("test_"):
                    new = re.sub(rf'(\b_?(?:of|engine_tests)\(\s*)"{r.old[5:]}"', rf'\1"{r.new[5:]}"', new)
        if f.endswith(".py"):
            new = rewrite_imports(f, new, packages)
            new = module_prose(new, f, rows, stems)
            if any(f"``{r.old}``" in new for r in rows):
                own = identifiers(new)
                new = re.sub(r"``(\w+)``", lambda m: m.group(0) if m.group(1) in own else quoted_module(m, f, rows), new)
        if f == "pyproject.toml":
            new = rewrite_contracts(new, rows)
        if new != text:
            path.write_text(new)


HISTORY = ("CHANGELOG.md", "docs/decisions/plain-english.md")


def is_style_table(file: str, line: str) -> bool:
    """The table of CONTRIBUTING.md that shows old words on purpose."""
    return file == "CONTRIBUTING.md" and line.startswith("|") and "`" in line


def bare_modules(line: str, by_file: dict[str, list[Row]], stems: dict[str, set[str]]) -> str:
    """`old.py` or `an_old` without a folder, where no other module is called so."""

    def sub(match: re.Match[str]) -> str:
        stem, suffix = match.group(1), match.group(2) or ""
        found = by_file.get(f"{stem}.py", [])
        if len(found) != 1 or stems.get(f"{stem}.py") or (not suffix and "_" not in stem):
            return match.group(0)
        return f"`{found[0].new}{suffix}`"

    return re.sub(r"`(\w+)(\.py)?`", sub, line)


def module_prose(text: str, file: str, rows: list[Row], stems: dict[str, set[str]]) -> str:
    """A module's name in a drawing or a comment, where it can be nothing else."""
    names = {r.old: r.new for r in rows if "_" in r.old and not stems.get(f"{r.old}.py")}
    found = [old for old in names if re.search(rf"\b{old}\b", text)]
    if not found:
        return text
    found = [old for old in found if old not in identifiers(text)]
    prose = prose_lines(text)
    out = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if number in prose:
            for old in found:
                line = re.sub(rf"(?<![\w/]){old}(?!\w)", names[old], line)
        out.append(line)
    return "".join(out)


def identifiers(text: str) -> set[str]:
    out: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            out.add(node.id)
        elif isinstance(node, ast.Attribute):
            out.add(node.attr)
        elif isinstance(node, ast.arg):
            out.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            out.add(node.value)
    return out


def quoted_module(match: re.Match[str], near: str, rows: list[Row]) -> str:
    """``held`` in the docstring of a neighbour."""
    folder = near.rsplit("/", 1)[0].replace("/", ".")
    for r in rows:
        if r.old == match.group(1) and r.scope == folder and len(r.old) > 4:
            return f"``{r.new}``"
    return match.group(0)


def rewrite_contracts(text: str, rows: list[Row]) -> str:
    """Layers of import-linter name modules below their container."""
    out, container = [], ""
    for line in text.splitlines(keepends=True):
        if found := re.match(r'containers = \["([\w.]+)"\]', line):
            container = found.group(1)
        if line.startswith("[["):
            container = ""
        if container and ("|" in line or re.match(r'\s+"\(?\w+\)?",?$', line) or line.startswith("layers")):
            for r in rows:
                if r.scope == container:
                    line = re.sub(rf"(?<![\w.]){re.escape(r.old)}(?!\w)", r.new, line)
        out.append(line)
    return "".join(out)


def rewrite_imports(path: str, text: str, packages: dict[tuple[str, str], Row]) -> str:
    """``from package import old``, with every use of ``old`` as a name in this file."""
    try:
        parsed = ast.parse(text)
    except SyntaxError:
        return text
    edits: list[Edit] = []
    lines = Lines(text)
    for node in ast.walk(parsed):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                row = packages.get((node.module, alias.name))
                if row is None:
                    continue
                edits.append(Edit(alias.lineno, alias.col_offset, row.old, row.new))
                if alias.asname is None:
                    for use in ast.walk(parsed):
                        if isinstance(use, ast.Name) and use.id == row.old:
                            edits.append(Edit(use.lineno, use.col_offset, row.old, row.new))
    return lines.applied(edits)


# ----------------------------------------------------------------------------------------------- editing


class Edit:
    __slots__ = ("col", "line", "new", "old")

    def __init__(self, line: int, col: int, old: str, new: str) -> None:
        self.line, self.col, self.old, self.new = line, col, old, new


class Lines:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.raw = [line.encode() for line in self.lines]

    def applied(self, edits: list[Edit]) -> str:
        by_line: dict[int, dict[int, Edit]] = defaultdict(dict)
        for e in edits:
            by_line[e.line][e.col] = e
        out = list(self.raw)
        for number, found in by_line.items():
            raw = out[number - 1]
            for col in sorted(found, reverse=True):
                e = found[col]
                old = e.old.encode()
                if raw[col : col + len(old)] != old:
                    raise AssertionError(f"line {number}:{col}: {raw!r} has no {e.old}")
                raw = raw[:col] + e.new.encode() + raw[col + len(old) :]
            out[number - 1] = raw
        return b"".join(out).decode()


# ------------------------------------------------------------------------------------------------- types


class Facts:
    """What mypy knows: owners of attributes, of keywords and of names in strings; classes and their bases."""

    def __init__(self) -> None:
        self.members: dict[str, dict[tuple[int, int], tuple[str, tuple[str, ...]]]] = {}
        self.keywords: dict[str, dict[tuple[int, int, int, int], tuple[str, ...]]] = {}
        self.strings: dict[str, dict[tuple[int, int], tuple[str, ...]]] = {}
        self.classes: dict[str, tuple[str, ...]] = {}  # mro
        self.names: dict[str, frozenset[str]] = {}


_SKIP = {
    "node", "info", "type", "names", "mro", "analyzed", "definition", "imports", "alias_deps", "unanalyzed_type",
    "original_def", "var", "corresponding_argument", "unanalyzed_items", "ignored_lines", "plugin_deps", "metadata",
    "fullname", "name", "line", "column", "end_line", "end_column", "bases", "defn", "tvar_scope", "unanalyzed",
    "future_import_flags", "path", "is_stub", "method_type", "method_types", "literal", "literal_hash", "def_", "typeddict",
    "expanded", "uses_pep604_unions", "dataclass_transform_spec", "type_args", "raw_ast", "skipped_lines", "type_vars",
}


def mypy_facts(root: Path) -> Facts:
    digest = hashlib.sha256()
    for f in sorted(Tree(root).pythons()):
        digest.update(f.encode() + b"\0" + (root / f).read_bytes())
    cache = Path(tempfile.gettempdir(), f"glossary-facts-{digest.hexdigest()[:20]}.pickle")
    if cache.exists():
        return pickle.loads(cache.read_bytes())
    os.chdir(root)
    sys.path.insert(0, str(root))
    from mypy import build
    from mypy import main as mypy_main
    from mypy import nodes as N
    from mypy import patterns as P
    from mypy import types as T

    sources, options = mypy_main.process_options([])
    options.export_types = True
    options.preserve_asts = True
    options.incremental = False
    options.cache_dir = os.devnull
    result = build.build(sources, options)
    if result.errors:
        sys.stderr.write("\n".join(result.errors[:40]) + "\n")
        raise SystemExit("mypy finds errors in the tree; names cannot be resolved reliably")
    types = result.types
    facts = Facts()

    def infos(found: object) -> list[object]:
        """TypeInfos of a type; None in the list for Any."""
        if found is None:
            return [None]
        typ = T.get_proper_type(found)
        if isinstance(typ, T.UnionType):
            return [i for item in typ.items for i in infos(item)]
        if isinstance(typ, T.Instance):
            return [typ.type]
        if isinstance(typ, T.AnyType):
            return [None]
        if isinstance(typ, T.TypeType):
            return infos(typ.item)
        if isinstance(typ, T.TupleType):
            return infos(typ.partial_fallback)
        if isinstance(typ, T.LiteralType):
            return infos(typ.fallback)
        if isinstance(typ, T.TypeVarType):
            return infos(typ.upper_bound)
        if isinstance(typ, T.CallableType):
            return infos(typ.ret_type) if typ.is_type_obj() else []
        if isinstance(typ, T.Overloaded):
            return infos(typ.items[0].ret_type) if typ.is_type_obj() else []
        return []

    def owners(found: object, name: str) -> tuple[str, ...]:
        out: list[str] = []
        for info in infos(found):
            if info is None:
                out.append("Any")
                continue
            having = [c.fullname for c in info.mro if name in c.names]
            out.extend(having)
            if not having and info.fallback_to_any:
                out.append("Any")
        return tuple(dict.fromkeys(out))

    attrs: dict[type, list[str]] = {}

    def children(node: object) -> list[object]:
        kind = type(node)
        if kind not in attrs:
            attrs[kind] = [
                a for a in dir(node)
                if not a.startswith("_") and a not in _SKIP and not callable(getattr(kind, a, None))
            ]
        out = []
        for a in attrs[kind]:
            try:
                value = getattr(node, a)
            except Exception:
                continue
            out.append(value)
        return out

    def walk(file: object, members, keywords, strings) -> None:
        stack: list[object] = list(file.defs)
        seen: set[int] = set()
        keep: list[object] = []
        while stack:
            node = stack.pop()
            if isinstance(node, (list, tuple)):
                stack.extend(node)
                continue
            if not isinstance(node, (N.Node,)) or isinstance(node, (N.TypeInfo, N.MypyFile, N.Var)):
                continue
            if id(node) in seen:
                continue
            seen.add(id(node))
            keep.append(node)
            if isinstance(node, N.MemberExpr):
                if not isinstance(node.expr, N.RefExpr) or not isinstance(node.expr.node, N.MypyFile):
                    key = (node.end_line, node.end_column)
                    own = owners(types.get(node.expr), node.name)
                    if key in members:
                        own = tuple(dict.fromkeys((*members[key][1], *own)))
                        own = tuple(o for o in own if o != "Any") or own
                    members[key] = (node.name, own)
            elif isinstance(node, N.SuperExpr):
                if node.info is not None:
                    members[(node.end_line, node.end_column)] = (
                        node.name, tuple(c.fullname for c in node.info.mro[1:] if node.name in c.names)
                    )
            elif isinstance(node, P.ClassPattern):
                ref = node.class_ref
                if isinstance(ref, N.RefExpr) and isinstance(ref.node, N.TypeInfo):
                    own = tuple(c.fullname for c in ref.node.mro)
                    keywords[(node.line, node.column, node.end_line, node.end_column)] = own
            elif isinstance(node, N.CallExpr):
                names = [n for n in node.arg_names if n]
                callee = node.callee
                if names:
                    own = []
                    if isinstance(callee, N.MemberExpr) and callee.name in ("_replace", "replace", "evolve") and not isinstance(callee.expr, N.RefExpr):
                        own += [c.fullname for i in infos(types.get(callee.expr)) if i for c in i.mro]
                    if isinstance(callee, N.MemberExpr) and callee.name == "_replace":
                        own += [c.fullname for i in infos(types.get(callee.expr)) if i for c in i.mro]
                    if isinstance(callee, N.RefExpr) and callee.fullname in ("dataclasses.replace", "msgspec.structs.replace", "copy.replace") and node.args:
                        own += [c.fullname for i in infos(types.get(node.args[0])) if i for c in i.mro]
                    for info in infos(types.get(callee)) if _is_type(types.get(callee), T) else []:
                        if info is not None:
                            own += [c.fullname for c in info.mro] + [f"{c.fullname}.__init__" for c in info.mro]
                    if isinstance(callee, N.RefExpr) and isinstance(callee.node, N.TypeInfo):
                        own += [c.fullname for c in callee.node.mro] + [f"{c.fullname}.__init__" for c in callee.node.mro]
                    if isinstance(callee, N.RefExpr) and callee.fullname:
                        own.append(callee.fullname)
                    if isinstance(callee, N.MemberExpr):
                        own += [f"{o}.{callee.name}" for o in owners(types.get(callee.expr), callee.name)]
                    if isinstance(callee, N.SuperExpr) and callee.info is not None:
                        own += [f"{c.fullname}.{callee.name}" for c in callee.info.mro[1:]]
                        if callee.name == "__init__":
                            own += [c.fullname for c in callee.info.mro[1:]]
                    keywords[(node.line, node.column, node.end_line, node.end_column)] = tuple(dict.fromkeys(own))
                called = callee.name if isinstance(callee, (N.MemberExpr, N.NameExpr)) else ""
                if called in ("setattr", "getattr", "hasattr", "delattr", "object", "getattr_static", "methodcaller", "attrgetter"):
                    for at, arg in enumerate(node.args[:2]):
                        if isinstance(arg, N.StrExpr):
                            first = node.args[0] if at else None
                            if first is None:
                                strings[(arg.line, arg.column)] = ("Any",)
                            elif isinstance(first, N.RefExpr) and isinstance(first.node, N.MypyFile):
                                strings[(arg.line, arg.column)] = (f"module {first.node.fullname}",)
                            else:
                                strings[(arg.line, arg.column)] = owners(types.get(first), arg.value)
            stack.extend(children(node))

    wanted = {str((root / f).resolve()): f for f in Tree(root).pythons()}
    for file in result.files.values():
        rel = wanted.get(str(Path(file.path).resolve()) if file.path else "")
        if rel is None:
            continue
        walk(file, facts.members.setdefault(rel, {}), facts.keywords.setdefault(rel, {}), facts.strings.setdefault(rel, {}))
    for name, file in result.files.items():
        if name.split(".")[0] not in ROOTS:
            continue
        stack = list(file.names.values())
        while stack:
            symbol = stack.pop()
            info = symbol.node
            if isinstance(info, N.TypeInfo) and info.fullname not in facts.classes:
                facts.classes[info.fullname] = tuple(c.fullname for c in info.mro)
                for c in info.mro:
                    if c.fullname not in facts.names:
                        facts.names[c.fullname] = frozenset(c.names)
                stack.extend(info.names.values())
    cache.write_bytes(pickle.dumps(facts))
    return facts


def _is_type(found: object, T: object) -> bool:
    if found is None:
        return False
    typ = T.get_proper_type(found)
    if isinstance(typ, T.TypeType):
        return True
    return isinstance(typ, (T.CallableType, T.Overloaded)) and typ.is_type_obj()


# -------------------------------------------------------------------------------------- names of modules


class Scope:
    def __init__(self, node: ast.AST, parent: Scope | None, fullname: str) -> None:
        self.node, self.parent, self.fullname = node, parent, fullname
        self.bound: dict[str, str | None] = {}  # name -> full name of what is imported, None: a variable here
        self.globals: set[str] = set()


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class File:
    """One parsed file: its module names, and every name with what it stands for."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.module = module_of(path)
        self.tree = ast.parse(text)
        self.lines = Lines(text)
        self.top: dict[str, str] = {}  # module-level name -> full name
        self.uses: list[tuple[ast.Name, str, Scope | None]] = []  # a name, its full name (or "" for a local)
        self.attributes: list[tuple[ast.Attribute, str]] = []  # with the dotted full name of its value, if a module
        self.definitions: list[tuple[ast.AST, str, str]] = []  # node, full name, "module" | "class"
        self.locals: dict[str, list[tuple[ast.AST, str]]] = defaultdict(list)  # function full name -> its names
        self._walk()

    def _package(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.module.split(".")
        if not self.path.endswith("__init__.py"):
            parts = parts[:-1]
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _bind_import(self, node: ast.Import | ast.ImportFrom, bound: dict[str, str | None]) -> None:
        if isinstance(node, ast.ImportFrom):
            package = self._package(node)
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{package}.{alias.name}"
        else:
            for alias in node.names:
                if alias.asname:
                    bound[alias.asname] = alias.name
                else:
                    bound[alias.name.split(".")[0]] = alias.name.split(".")[0]

    def _bindings(self, node: ast.AST) -> tuple[dict[str, str | None], set[str]]:
        """What a function's body binds, without what nested functions do."""
        bound: dict[str, str | None] = {}
        declared: set[str] = set()
        if isinstance(node, FUNCTIONS):
            a = node.args
            for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else [])):
                bound[arg.arg] = None
        if isinstance(node, COMPREHENSIONS):
            for g in node.generators:
                for n in ast.walk(g.target):
                    if isinstance(n, ast.Name):
                        bound[n.id] = None
            return bound, declared
        stack: list[ast.AST] = list(node.body) if isinstance(node.body, list) else [node.body]
        while stack:
            n = stack.pop()
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound.setdefault(n.name, None)
                stack.extend(n.decorator_list)
                continue
            if isinstance(n, ast.Lambda):
                continue
            if isinstance(n, COMPREHENSIONS):
                for g in n.generators:
                    stack.append(g.iter)
                stack.extend(x for x in ast.walk(n) if isinstance(x, ast.NamedExpr))
                continue
            if isinstance(n, (ast.Import, ast.ImportFrom)):
                self._bind_import(n, bound)
                continue
            if isinstance(n, (ast.Global, ast.Nonlocal)):
                declared.update(n.names)
                continue
            if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
                bound.setdefault(n.id, None)
            if isinstance(n, ast.ExceptHandler) and n.name:
                bound.setdefault(n.name, None)
            if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
                bound.setdefault(n.name, None)
            stack.extend(ast.iter_child_nodes(n))
        for name in declared:
            bound.pop(name, None)
        return bound, declared

    def _walk(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.If, ast.Try, ast.With)) and node not in self.tree.body:
                continue
        module = Scope(self.tree, None, self.module)
        bound, _ = self._bindings(self.tree)  # type: ignore[arg-type]
        for name, target in bound.items():
            self.top[name] = target or f"{self.module}.{name}"
        self._visit_body(self.tree, module, [])

    def _resolve(self, name: str, scopes: list[tuple[Scope, bool]]) -> tuple[str, Scope | None]:
        innermost = True
        for scope, is_class in reversed(scopes):
            if is_class and not innermost:
                continue
            innermost = False
            if name in scope.globals:
                break
            if name in scope.bound:
                target = scope.bound[name]
                if target is not None:
                    return target, None
                return ("", None if is_class else scope)
        if name in self.top:
            return self.top[name], None
        return "", None

    def _visit_body(self, node: ast.AST, module: Scope, scopes: list[tuple[Scope, bool]]) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child, module, scopes)

    def _visit(self, node: ast.AST, module: Scope, scopes: list[tuple[Scope, bool]]) -> None:
        where = scopes[-1][0].fullname if scopes else self.module
        if isinstance(node, ast.ClassDef):
            self.definitions.append((node, f"{where}.{node.name}", "class" if scopes and scopes[-1][1] else "module"))
            for child in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
                self._visit(child, module, scopes)
            scope = Scope(node, None, f"{where}.{node.name}")
            scope.bound, scope.globals = self._bindings(node)  # type: ignore[arg-type]
            inner = [*scopes, (scope, True)]
            for child in node.body:
                self._visit(child, module, inner)
            return
        if isinstance(node, FUNCTIONS):
            name = getattr(node, "name", "<lambda>")
            if not isinstance(node, ast.Lambda):
                self.definitions.append((node, f"{where}.{name}", "class" if scopes and scopes[-1][1] else "module" if not scopes else "local"))
                for child in node.decorator_list:
                    self._visit(child, module, scopes)
            a = node.args
            for child in (*a.defaults, *(d for d in a.kw_defaults if d)):
                self._visit(child, module, scopes)
            for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
                if arg is not None and arg.annotation is not None:
                    self._visit(arg.annotation, module, scopes)
            if not isinstance(node, ast.Lambda) and node.returns is not None:
                self._visit(node.returns, module, scopes)
            scope = Scope(node, None, f"{where}.{name}")
            scope.bound, scope.globals = self._bindings(node)
            for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg):
                if arg is not None:
                    self.locals[scope.fullname].append((arg, arg.arg))
            inner = [*scopes, (scope, False)]
            for child in node.body if isinstance(node.body, list) else [node.body]:
                self._visit(child, module, inner)
            return
        if isinstance(node, COMPREHENSIONS):
            self._visit(node.generators[0].iter, module, scopes)
            scope = Scope(node, None, where)
            scope.bound, scope.globals = self._bindings(node)
            # a named expression inside binds outside; what a class binds is seen by nothing in here
            inner = [*scopes, (scope, False)]
            for g in node.generators:
                self._visit(g.target, module, inner)
                if g is not node.generators[0]:
                    self._visit(g.iter, module, inner)
                for i in g.ifs:
                    self._visit(i, module, inner)
            for part in (getattr(node, "elt", None), getattr(node, "key", None), getattr(node, "value", None)):
                if part is not None:
                    self._visit(part, module, inner)
            return
        if isinstance(node, ast.Name):
            full, scope = self._resolve(node.id, scopes)
            if scope is not None:
                self.locals[scope.fullname].append((node, node.id))
            in_class = bool(scopes) and scopes[-1][1] and node.id in scopes[-1][0].bound
            if in_class:
                full = f"{scopes[-1][0].fullname}.{node.id}"
            self.uses.append((node, full, scope))
            return
        if isinstance(node, ast.Attribute):
            self._visit(node.value, module, scopes)
            dotted = self._dotted(node.value, scopes)
            self.attributes.append((node, dotted))
            return
        self._visit_body(node, module, scopes)

    def _dotted(self, node: ast.AST, scopes: list[tuple[Scope, bool]]) -> str:
        if isinstance(node, ast.Name):
            full, scope = self._resolve(node.id, scopes)
            return full if scope is None else ""
        if isinstance(node, ast.Attribute):
            below = self._dotted(node.value, scopes)
            return f"{below}.{node.attr}" if below else ""
        return ""


class Symbols:
    """Full names of module-level things, through any number of re-exports."""

    def __init__(self, files: dict[str, File]) -> None:
        self.by_module = {f.module: f for f in files.values()}

    def home(self, full: str) -> str:
        for _ in range(12):
            module, _, rest = full.rpartition(".")
            tail = [rest]
            while module and module not in self.by_module:
                module, _, part = module.rpartition(".")
                tail.insert(0, part)
            if not module or full in self.by_module:
                return full
            target = self.by_module[module].top.get(tail[0])
            if target is None or target == f"{module}.{tail[0]}":
                return full
            full = ".".join([target, *tail[1:]])
        return full


# --- EDITS --------------------------------------------------------------------------------- the renaming


class Renaming:
    def __init__(self, tree: Tree, rows: list[Row], kinds: set[str], force: bool) -> None:
        self.tree, self.rows, self.kinds, self.force = tree, rows, kinds, force
        self.modules = Modules(rows)
        self.files = {f: File(f, (tree.root / f).read_text()) for f in tree.pythons()}
        self.symbols = Symbols(self.files)
        self.edits: dict[str, list[Edit]] = defaultdict(list)
        self.local_names: dict[str, dict[str, str]] = defaultdict(dict)  # file -> names that it used, and uses now
        self.problems: list[str] = []
        self.unresolved: list[str] = []

    def _scopes(self, row: Row) -> list[str]:
        out = []
        for part in row.scope.split(","):
            part = part.strip()
            module = self.modules.newest(part)
            if not self._exists(module):
                module = part
            out.append(self._newest_classes(module))
        return out

    def _exists(self, dotted: str) -> bool:
        while dotted:
            if dotted in self.symbols.by_module:
                return True
            dotted = dotted.rpartition(".")[0]
            if dotted.count(".") < 1:
                return dotted in self.symbols.by_module
        return False

    def _newest_classes(self, full: str) -> str:
        """A scope module.Class after its class was renamed."""
        module = full
        rest: list[str] = []
        while module and module not in self.symbols.by_module:
            module, _, part = module.rpartition(".")
            rest.insert(0, part)
        if not rest:
            return full
        for row in self.rows:
            if row.kind == "class" and row.old == rest[0] and module in (row.scope, self.modules.newest(row.scope)):
                names = self.symbols.by_module[module].top
                if row.old not in names and row.new in names:
                    rest[0] = row.new
        return ".".join([module, *rest])

    # .................................................................... names of modules' own things

    def plan(self) -> None:
        self.tops: dict[str, Row] = {}
        self.members: dict[str, list[tuple[str, Row]]] = defaultdict(list)  # old -> (class, row)
        self.parameters: dict[str, list[tuple[str, Row]]] = defaultdict(list)
        for row in self.rows:
            if row.kind not in self.kinds:
                continue
            if row.kind in ("class", "function", "constant", "plant"):
                self._plan_top(row)
            elif row.kind in ("method", "attribute"):
                for scope in self._scopes(row):
                    self.members[row.old].append((scope, row))
                    if row.kind == "attribute" and scope != "*":  # what fills it is called as it is
                        self.parameters[row.old].append((f"{scope}.__init__", row))
            elif row.kind == "parameter":
                for scope in self._scopes(row):
                    self.parameters[row.old].append((self._newest_function(scope), row))

    def _newest_function(self, full: str) -> str:
        for row in self.rows:
            if row.kind in ("function", "method") and full.endswith("." + row.old):
                candidate = full[: -len(row.old)] + row.new
                if any(d == candidate for f in self.files.values() for _, d, _ in f.definitions):
                    return candidate
        return full

    def _plan_top(self, row: Row) -> None:
        module = self._scopes(row)[0]
        file = self.symbols.by_module.get(module)
        if file is None:
            return
        has_old = file.top.get(row.old) == f"{module}.{row.old}"
        has_new = row.new in file.top
        if not has_old:
            row.state = "done" if has_new else "not found"
            return
        if has_new:
            row.state = "taken"
            return
        self.tops[f"{module}.{row.old}"] = row
        row.state = "renamed"

    def rename_tops(self) -> None:
        if not self.tops:
            return
        olds = {row.old for row in self.tops.values()}
        for path, file in self.files.items():
            edits = self.edits[path]
            clash = {}
            for name, full in file.top.items():
                row = self.tops.get(self.symbols.home(full))
                if row is not None and name == row.old:
                    if row.new in file.top and self.symbols.home(file.top[row.new]) != self.symbols.home(full):
                        clash[row.old] = row.new
            for old, new in clash.items():
                self.problems.append(f"{path} has a {new} already, and uses {old}")
            for node, full, kind in file.definitions:
                row = self.tops.get(full) if kind == "module" else None
                if row is not None:
                    edits.append(self._definition(file, node, row.old, row.new))
            for node in ast.walk(file.tree):
                if isinstance(node, ast.ImportFrom):
                    package = file._package(node)
                    for alias in node.names:
                        row = self.tops.get(self.symbols.home(f"{package}.{alias.name}"))
                        if row is not None and alias.name == row.old:
                            edits.append(Edit(alias.lineno, alias.col_offset, row.old, row.new))
                elif isinstance(node, ast.Global):
                    for name in node.names:
                        row = self.tops.get(f"{file.module}.{name}")
                        if row is not None:
                            edits.extend(self._words(file, node.lineno, row))
            for use, full, scope in file.uses:
                if use.id in olds and full and scope is None:
                    row = self.tops.get(self.symbols.home(full))
                    if row is not None and row.old == use.id:
                        edits.append(Edit(use.lineno, use.col_offset, row.old, row.new))
                        self._check_shadow(file, use, row)
            for attribute, dotted in file.attributes:
                if attribute.attr in olds and dotted:
                    row = self.tops.get(self.symbols.home(f"{dotted}.{attribute.attr}"))
                    if row is not None and row.old == attribute.attr:
                        edits.append(self._attribute(file, attribute, row))
            for node in ast.walk(file.tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in olds:
                    row = self.tops.get(self.symbols.home(file.top.get(node.value, "")))
                    if row is not None and self._is_quoted_type(file, node):
                        edits.append(Edit(node.lineno, node.col_offset + 1, row.old, row.new))

    def _check_shadow(self, file: File, use: ast.Name, row: Row) -> None:
        pass

    def _is_quoted_type(self, file: File, node: ast.Constant) -> bool:
        line = file.lines.lines[node.lineno - 1]
        before = line[: node.col_offset].rstrip()
        return before.endswith(("cast(", "bound=", "TypeVar(", "NewType(", "ParamSpec(")) or self._in_all(file, node)

    def _in_all(self, file: File, node: ast.Constant) -> bool:
        for top in file.tree.body:
            target = top.targets[0] if isinstance(top, ast.Assign) else getattr(top, "target", None)
            if isinstance(target, ast.Name) and target.id == "__all__" and top.lineno <= node.lineno <= (top.end_lineno or 0):
                return True
        return False

    def _words(self, file: File, line: int, row: Row) -> list[Edit]:
        raw = file.lines.raw[line - 1]
        return [
            Edit(line, m.start(), row.old, row.new) for m in re.finditer(rb"\b" + re.escape(row.old.encode()) + rb"\b", raw)
        ]

    def _definition(self, file: File, node: ast.AST, old: str, new: str) -> Edit:
        line = node.lineno
        for number in range(line, line + 3):
            raw = file.lines.raw[number - 1]
            found = re.search(rb"\b(?:def|class)\s+(" + re.escape(old.encode()) + rb")\b", raw)
            if found:
                return Edit(number, found.start(1), old, new)
        raise AssertionError(f"{file.path}:{line}: no definition of {old}")

    def _attribute(self, file: File, node: ast.Attribute, row: Row) -> Edit:
        return Edit(node.end_lineno or 0, (node.end_col_offset or 0) - len(node.attr.encode()), row.old, row.new)

    # ............................................................................. members of classes

    def rename_members(self) -> None:
        if not self.members and not self.parameters:
            return
        facts = self.facts = mypy_facts(self.tree.root)
        everything = {
            old: [row for scope, row in rows if scope == "*"] for old, rows in self.members.items()
        }
        by_class = {(scope, row.old): row for rows in self.members.values() for scope, row in rows if scope != "*"}
        for (scope, old), row in list(by_class.items()):
            if scope not in facts.classes:
                continue  # listed as not found
            elif old not in facts.names.get(scope, ()):
                if row.new in facts.names.get(scope, ()):
                    row.state = "done" if row.state != "renamed" else row.state
                continue
            else:
                for base in facts.classes[scope]:
                    if base != scope and old in facts.names.get(base, ()) and (base, old) not in by_class:
                        if base.split(".")[0] not in ROOTS:
                            self.problems.append(f"{old} of {scope} is {base}'s: {row}")
                        else:
                            self.problems.append(f"{old} of {scope} overrides {base}'s, which has no row: {row}")
                for other, mro in facts.classes.items():
                    if scope in mro and row.new in facts.names.get(other, ()):
                        self.problems.append(f"{other} has a {row.new} already: {row}")
                        row.state = "taken"
                wire = [b for b in facts.classes[scope] if b in WIRE]
                if wire and row.kind == "attribute" and "[not on a wire]" not in row.why:
                    self.problems.append(f"{scope} is a {wire[0]}: its fields are names on a wire: {row}")
                    row.state = "taken"

        def row_for(owners: tuple[str, ...], old: str) -> Row | None:
            for owner in owners:
                row = by_class.get((owner, old))
                if row is not None and row.state != "taken":
                    return row
            for row in everything.get(old, ()):
                if owners and any(o.split(".")[0] in ROOTS for o in owners):
                    return row
            return None

        self.row_for = row_for
        targets: dict[str, set[str]] = defaultdict(set)
        for old, rows in self.members.items():
            targets[old] = {row.new for _, row in rows}
        others: dict[str, list[str]] = defaultdict(list)  # classes that have an old name and keep it
        for name, mro in facts.classes.items():
            for old in facts.names.get(name, frozenset()) & self.members.keys():
                if row_for(tuple(b for b in mro if old in facts.names.get(b, ())), old) is None:
                    others[old].append(name)
        self.others = others
        for path, file in self.files.items():
            edits = self.edits[path]
            known = facts.members.get(path, {})
            for attribute, dotted in file.attributes:
                if attribute.attr not in self.members:
                    continue
                key = (attribute.end_lineno or 0, attribute.end_col_offset or 0)
                name, owners = known.get(key, ("", ()))
                row = row_for(owners, attribute.attr) if name == attribute.attr else None
                if row is not None:
                    edits.append(self._attribute(file, attribute, row))
                    row.state = "renamed"
                elif (not owners or "Any" in owners) and not (dotted and dotted.split(".")[0] not in ROOTS):
                    self._guess(file, attribute, edits, targets)
            for node, full, kind in file.definitions:
                name = full.rpartition(".")[2]
                if kind == "class" and name in self.members:
                    owner = full.rpartition(".")[0]
                    row = row_for(self._having(owner, name), name)
                    if row is not None:
                        edits.append(self._definition(file, node, row.old, row.new))
                        row.state = "renamed"
            for use, full, scope in file.uses:
                if use.id in self.members and full and "." in full and scope is None:
                    owner = full.rpartition(".")[0]
                    if owner in facts.classes:
                        row = row_for(self._having(owner, use.id), use.id)
                        if row is not None:
                            edits.append(Edit(use.lineno, use.col_offset, row.old, row.new))
                            row.state = "renamed"
            self._keywords(file, edits)
            self._slots(file, edits)
            self._strings(file, edits)

    def _having(self, owner: str, name: str) -> tuple[str, ...]:
        return tuple(b for b in self.facts.classes.get(owner, ()) if name in self.facts.names.get(b, ()))

    def _guess(self, file: File, node: ast.Attribute, edits: list[Edit], targets: dict[str, set[str]]) -> None:
        """A receiver of type Any: the name is renamed where it can be no other."""
        old = node.attr
        forced = [r for r in self.rows if r.kind == "local" and fnmatch.fnmatch(file.path, r.scope) and r.old == old]
        if forced:
            return
        if len(targets[old]) == 1 and not self.others[old]:
            row = self.members[old][0][1]
            edits.append(self._attribute(file, node, row))
            self.unresolved.append(f"guessed     {file.path}:{node.lineno} .{old} -> {row.new}")
        else:
            self.unresolved.append(f"unresolved  {file.path}:{node.lineno} .{old} ({', '.join(sorted(targets[old]))}; kept by {', '.join(self.others[old][:3])})")

    def _keywords(self, file: File, edits: list[Edit]) -> None:
        known = self.facts.keywords.get(file.path, {})
        for node in ast.walk(file.tree):
            if isinstance(node, ast.MatchClass):
                owners = known.get((node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0), ())
                for at, name in enumerate(node.kwd_attrs):
                    row = self.row_for(owners, name) if name in self.members else None
                    if row is not None:
                        pattern = node.kwd_patterns[at]
                        raw = file.lines.raw[pattern.lineno - 1][: pattern.col_offset]
                        col = raw.rfind(name.encode() + b"=")
                        edits.append(Edit(pattern.lineno, col, row.old, row.new))
            if not isinstance(node, ast.Call):
                continue
            for keyword in node.keywords:
                if keyword.arg is None or (keyword.arg not in self.members and keyword.arg not in self.parameters):
                    continue
                owners = known.get((node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0), ())
                row = None
                if keyword.arg in self.members:
                    row = self.row_for(owners, keyword.arg)
                if row is None:
                    for scope, candidate in self.parameters.get(keyword.arg, ()):
                        if scope in owners or scope.removesuffix(".__init__") in owners and scope.endswith(".__init__"):
                            row = candidate
                if row is not None:
                    edits.append(Edit(keyword.lineno, keyword.col_offset, row.old, row.new))

    def _slots(self, file: File, edits: list[Edit]) -> None:
        for node, full, kind in file.definitions:
            if not isinstance(node, ast.ClassDef):
                continue
            for part in node.body:
                target = part.targets[0] if isinstance(part, ast.Assign) else getattr(part, "target", None)
                if not (isinstance(target, ast.Name) and target.id in ("__slots__", "__match_args__", "_fields")):
                    continue
                for constant in ast.walk(part):
                    if isinstance(constant, ast.Constant) and isinstance(constant.value, str) and constant.value in self.members:
                        row = self.row_for(self._having(full, constant.value), constant.value)
                        if row is not None:
                            edits.append(Edit(constant.lineno, constant.col_offset + 1, row.old, row.new))

    def _strings(self, file: File, edits: list[Edit]) -> None:
        known = self.facts.strings.get(file.path, {})
        for node in ast.walk(file.tree):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            owners = known.get((node.lineno, node.col_offset))
            if owners is None:
                continue
            if owners and owners[0].startswith("module "):
                row = self.tops.get(self.symbols.home(f"{owners[0][7:]}.{node.value}"))
            else:
                row = self.row_for(owners, node.value) if node.value in self.members else None
                if row is None and node.value in self.members and (not owners or "Any" in owners):
                    news = {r.new for _, r in self.members[node.value]}
                    if len(news) == 1 and not self.others[node.value]:
                        row = self.members[node.value][0][1]
                    else:
                        self.unresolved.append(f"unresolved  {file.path}:{node.lineno} {node.value!r}")
            if row is not None:
                edits.append(Edit(node.lineno, node.col_offset + 1, row.old, row.new))

    def rename_parameters(self) -> None:
        for old, rows in self.parameters.items():
            for scope, row in rows:
                found = False
                for path, file in self.files.items():
                    if not scope.startswith(file.module + "."):
                        continue
                    taken = {name for _, name in file.locals.get(scope, ())}
                    if old not in taken:
                        continue
                    if row.new in taken:
                        row.state = "taken"
                        continue
                    for node, name in file.locals[scope]:
                        if name == old:
                            self.edits[path].append(Edit(node.lineno, node.col_offset, old, row.new))
                            found = True
                if found:
                    row.state = "renamed"
                elif row.state == "not found":
                    for file in self.files.values():
                        if any(name == row.new for _, name in file.locals.get(scope, ())):
                            row.state = "done"

    def rename_module_strings(self) -> None:
        """setattr(module, "old", …) of a function or class."""
        if not self.tops or self.members:
            return
        olds = {row.old for row in self.tops.values()}
        for path, file in self.files.items():
            for node in ast.walk(file.tree):
                if isinstance(node, ast.Call) and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant) and node.args[1].value in olds:
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    if called in ("setattr", "getattr", "delattr", "object", "hasattr"):
                        dotted = ""
                        for attribute, below in file.attributes:
                            if attribute is node.args[0]:
                                dotted = f"{below}.{attribute.attr}" if below else ""
                        for use, full, scope in file.uses:
                            if use is node.args[0] and scope is None:
                                dotted = full
                        row = self.tops.get(self.symbols.home(f"{dotted}.{node.args[1].value}")) if dotted else None
                        if row is not None:
                            self.edits[path].append(Edit(node.args[1].lineno, node.args[1].col_offset + 1, row.old, row.new))

    def rename_locals(self) -> None:
        for row in self.rows:
            if row.kind != "local" or "local" not in self.kinds:
                continue
            for path, file in self.files.items():
                if not fnmatch.fnmatch(path, row.scope):
                    continue
                for node in ast.walk(file.tree):
                    edit = None
                    if isinstance(node, ast.Name) and node.id == row.old:
                        edit = Edit(node.lineno, node.col_offset, row.old, row.new)
                    elif isinstance(node, ast.Attribute) and node.attr == row.old:
                        edit = self._attribute(file, node, row)
                    elif isinstance(node, ast.arg) and node.arg == row.old:
                        edit = Edit(node.lineno, node.col_offset, row.old, row.new)
                    elif isinstance(node, ast.keyword) and node.arg == row.old:
                        edit = Edit(node.lineno, node.col_offset, row.old, row.new)
                    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == row.old:
                        edit = self._definition(file, node, row.old, row.new)
                    if edit is not None:
                        self.edits[path].append(edit)
                        row.state = "renamed"
                if row.state == "not found":
                    row.state = "done"

    def write(self) -> int:
        count = 0
        for path, edits in self.edits.items():
            if not edits:
                continue
            file = self.files[path]
            for edit in edits:
                self.local_names[path].setdefault(edit.old, edit.new)
            text = file.lines.applied(edits)
            if text != file.text:
                (self.tree.root / path).write_text(text)
                count += 1
        return count


# ----------------------------------------------------------------------------------------- names in texts


class Texts:
    """Names where they are strings: targets of planted bugs, dotted paths, node ids of tests, backquotes."""

    def __init__(self, tree: Tree, rows: list[Row], kinds: set[str]) -> None:
        self.tree, self.rows, self.kinds = tree, rows, kinds
        self.modules = Modules(rows)

    def apply(self, local_names: dict[str, dict[str, str]]) -> None:
        tests = [r for r in self.rows if r.kind == "test" and "test" in self.kinds]
        plants = [r for r in self.rows if r.kind == "plant" and r.state in ("renamed", "done") and "plant" in self.kinds]
        words = [r for r in self.rows if r.kind == "word" and "word" in self.kinds]
        dotted = self._dotted()
        quoted = self._quoted()
        plain = {old: new for old, (new, _) in quoted.items() if is_plain_name(old)}
        plain_re = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, sorted(plain, key=len, reverse=True))) + r")(?![\w])") if plain else None
        test_names = {r.old: r for r in tests}
        short_names = {r.old.removeprefix("test_"): r for r in tests}
        test_re = re.compile(r"\b(" + "|".join(map(re.escape, test_names)) + r")\b") if tests else None
        short_re = re.compile(r'"(' + "|".join(map(re.escape, short_names)) + r')"') if tests else None
        plant_names = {r.old: r for r in plants}
        plant_re = re.compile(r"\b(" + "|".join(map(re.escape, plant_names)) + r")\b") if plants else None
        dotted_re = re.compile(r"(?<![\w.])(?:mqservice|storage_engine|analytics|tests|bench)(?:\.\w+)+(?::[\w.]+)?")
        for f in self.tree.texts():
            path = self.tree.root / f
            if f in HISTORY:
                continue
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            new = dotted_re.sub(lambda m: dotted(m.group(0)), text)
            if f.endswith(".py") and re.search(r'^_[A-Z]+: Final = "[\w.]+:', new, re.MULTILINE):  # _D + "NAME"
                heads = dict(re.findall(r'^(_[A-Z]+): Final = "([\w.]+:[\w.]*)"', new, re.MULTILINE))
                new = re.sub(
                    r'(_[A-Z]+) \+ "(\w+)"',
                    lambda m: f'{m.group(1)} + "{dotted(heads[m.group(1)] + m.group(2))[len(heads[m.group(1)]):]}"'
                    if m.group(1) in heads else m.group(0),
                    new,
                )
            if test_re and f.startswith(("tests/", "docs/", "evidence/", "README", "ARCHITECTURE", "CONTRIBUTING", "Makefile", "CHANGELOG")):
                def test_sub(m: re.Match[str]) -> str:
                    row = test_names[m.group(1)]
                    row.state = "renamed"
                    return row.new
                new = test_re.sub(test_sub, new)
                if f.startswith("tests/torture/"):
                    new = short_re.sub(lambda m: f'"{short_names[m.group(1)].new.removeprefix("test_")}"', new)  # type: ignore[union-attr]
            if plant_re and (f.startswith(("evidence/", "docs/reliability.md", "tests/"))):
                new = plant_re.sub(lambda m: plant_names[m.group(1)].new, new)
            if plain_re and f not in HISTORY and not f.endswith((".json", ".po")) and not (f.startswith("docs/") and f.endswith(".md")):
                new = "".join(
                    line if is_style_table(f, line)
                    else redraw(line, plain_re, plain) if _DRAWING.search(line) and f.endswith(".py")
                    else plain_re.sub(lambda m: plain[m.group(1)], line)
                    for line in new.splitlines(keepends=True)
                )
            if quoted and f.endswith(".py"):
                new = re.sub(r"(`{1,2})([A-Za-z_][\w.]*?)(\(\))?(`{1,2})", lambda m: quoted_sub(m, quoted, f, self.modules), new)
                new = prose_names(new, local_names.get(f, {}))
            elif quoted and f.startswith(PEOPLE) and f not in HISTORY:
                new = "".join(
                    line if is_style_table(f, line)
                    else re.sub(r"(`{1,2})([A-Za-z_][\w.]*?)(\(\))?(`{1,2})", lambda m: quoted_sub(m, quoted, "", self.modules), line)
                    for line in new.splitlines(keepends=True)
                )
            for row in words:
                if any(fnmatch.fnmatch(f, glob.strip()) for glob in row.scope.split(",")):
                    changed = re.sub(rf"(?<![\w-]){re.escape(row.old)}(?![\w])", row.new, new)
                    if changed != new:
                        row.state = "renamed"
                        new = changed
                    elif row.state == "not found" and re.search(rf"(?<![\w-]){re.escape(row.new)}(?![\w])", new):
                        row.state = "done"
            if new != text:
                path.write_text(new)
        for row in tests:
            if row.state == "not found":
                path = self.tree.root / row.scope
                if path.exists() and re.search(rf"\b{re.escape(row.new)}\b", path.read_text()):
                    row.state = "done"

    def _dotted(self):
        tops: dict[tuple[str, str], Row] = {}
        members: dict[tuple[str, str], Row] = {}
        for r in self.rows:
            if r.state not in ("renamed", "done") or r.kind not in self.kinds:
                continue
            for scope in r.scope.split(","):
                scope = self.modules.newest(scope.strip())
                if r.kind in ("class", "function", "constant"):
                    tops[scope, r.old] = r
                elif r.kind in ("method", "attribute"):
                    members[scope, r.old] = r
        old_class = {}
        for r in self.rows:
            if r.kind == "class":
                old_class[self.modules.newest(r.scope), r.new] = r.old
        modules = {module_of(f) for f in self.tree.pythons()}

        def sub(text: str) -> str:
            path, colon, rest = text.partition(":")
            parts = path.split(".")
            at = len(parts)
            while at and ".".join(parts[:at]) not in modules:
                at -= 1
            if not at:
                return text
            module = ".".join(parts[:at])
            tail = (rest.split(".") if rest else []) if colon else parts[at:]
            if colon and at != len(parts):
                return text
            if not tail:
                return text
            first = tail[0]
            cls = old_class.get((module, first), first)
            row = tops.get((module, first))
            if row is not None:
                tail[0] = row.new
            if len(tail) > 1:
                row = members.get((f"{module}.{cls}", tail[1])) or members.get((f"{module}.{first}", tail[1]))
                if row is not None:
                    tail[1] = row.new
            return module + (colon or ".") + ".".join(tail)

        return sub

    def _quoted(self) -> dict[str, tuple[str, set[str]]]:
        """Names that mean one thing in the whole tree: old -> new."""
        news: dict[str, set[str]] = defaultdict(set)
        for r in self.rows:
            if r.kind in ("class", "function", "constant", "method", "attribute") and r.kind in self.kinds and r.state in ("renamed", "done"):
                news[r.old].add(r.new)
        if not news:
            return {}
        left: set[str] = set()
        for f in self.tree.pythons():
            for node in ast.walk(ast.parse((self.tree.root / f).read_text())):
                if isinstance(node, ast.Name):
                    left.add(node.id)
                elif isinstance(node, ast.Attribute):
                    left.add(node.attr)
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    left.add(node.name)
                elif isinstance(node, ast.arg):
                    left.add(node.arg)
        return {old: (next(iter(n)), set()) for old, n in news.items() if len(n) == 1 and old not in left}


def is_plain_name(name: str) -> bool:
    """Whether a name cannot be a word of a sentence: two humps, or an underscore within."""
    return bool(re.search(r"[a-z][A-Z]", name)) or "_" in name.strip("_") or (name.startswith("_") and len(name) > 5)


def redraw(line: str, name: re.Pattern[str], names: dict[str, str]) -> str:
    """Names in a drawing; the next gap or arrow takes up the difference, so that what stands below fits."""
    at = 0
    while found := name.search(line, at):
        new = names[found.group(1)]
        delta = len(new) - len(found.group(1))
        head, tail = line[: found.start(1)] + new, line[found.end(1):]
        gap = re.search(r" {2,}|─{2,}", tail)
        if gap is not None:
            width = max(len(gap.group(0)) - delta, 2 if gap.group(0)[0] == " " else 1)
            tail = tail[: gap.start()] + gap.group(0)[0] * width + tail[gap.end():]
        line, at = head + tail, len(head)
    return line


_DRAWING = re.compile(r"[─▶│└├]")


def prose_names(text: str, names: dict[str, str]) -> str:
    """Names of a file in its own docstrings and comments: in brackets, backquotes, drawings, after Raises."""
    if not names:
        return text
    words = sorted(names, key=len, reverse=True)
    any_name = "(" + "|".join(map(re.escape, words)) + ")"
    forms = [
        re.compile(rf"(?<=\[){any_name}(?=[\].])"),
        re.compile(rf"(?<=``){any_name}(?=``|\.)"),
        re.compile(rf"(?<=Raises ){any_name}\b"),
    ]
    camel = [w for w in words if w.lstrip("_")[:1].isupper()]
    drawn = re.compile(r"(?<![\w`])(" + "|".join(map(re.escape, camel)) + r")(?!\w)") if camel else None
    prose = prose_lines(text)
    out = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if number in prose:
            for form in forms:
                line = redraw(line, form, names) if _DRAWING.search(line) else form.sub(lambda m: names[m.group(1)], line)
            if drawn is not None and _DRAWING.search(line):
                line = redraw(line, drawn, names)
        out.append(line)
    return "".join(out)


def quoted_sub(match: re.Match[str], quoted: dict[str, tuple[str, set[str]]], near: str, modules: Modules) -> str:
    head, name, call, tail = match.group(1), match.group(2), match.group(3) or "", match.group(4)
    parts = name.split(".")
    if parts[0] in ROOTS:
        return match.group(0)
    new = [quoted[p][0] if p in quoted and (near or "_" in p or not p.islower()) else p for p in parts]
    return f"{head}{'.'.join(new)}{call}{tail}"


# ------------------------------------------------------------------------------------- lines that grew


def prose_lines(text: str) -> set[int]:
    """Lines of docstrings and of comments that stand alone."""
    out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                out.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            out.add(number)
    return out


def exact_lines(tree: Tree, path: Path) -> None:
    """Lines that are better written by hand: "=== file", then pairs of "-old" and "+new" lines."""
    if not path.exists():
        return
    for block in path.read_text().split("\n=== ")[0:]:
        name, _, body = block.removeprefix("=== ").partition("\n")
        file = tree.root / name.strip()
        if not name.strip() or not file.exists():
            continue
        text = file.read_text()
        for pair in re.finditer(r"((?:^-.*\n)+)((?:^\+.*\n?)+)", body + "\n", re.MULTILINE):
            old = "".join(line[1:] + "\n" for line in pair.group(1).splitlines())
            new = "".join(line[1:] + "\n" for line in pair.group(2).splitlines())
            text = text.replace(old, new)
        file.write_text(text)


_DRAWN = re.compile(r"[─│┌┐└┘├┤┬┴▶◀▼▲┼═║]|  \S+  |^\s*[*-] |^\s*\d+\. ")


def fit_lines(tree: Tree, width: int = 100) -> list[str]:
    """Moves the last words of prose that has become too long to the next line. Lists what it cannot."""
    left: list[str] = []
    for f in tree.pythons():
        path = tree.root / f
        text = path.read_text()
        if "/migrations/" in f or all(len(line) <= width for line in text.splitlines()):
            continue
        for _ in range(40):
            lines = text.splitlines()
            prose = prose_lines(text)
            at = next((n for n, line in enumerate(lines) if len(line) > width and n + 1 in prose and not _DRAWN.search(line.strip("# ")) ), None)
            if at is None:
                break
            line = lines[at]
            indent = re.match(r"\s*", line).group(0)  # type: ignore[union-attr]
            comment = line.lstrip().startswith("#")
            lead = indent + "# " if comment else indent
            ends = not comment and line.rstrip().endswith('"""') and line.count('"""') in (1, 2) and (line.count('"""') == 2 or not line.strip() == '"""')
            body = line[: line.rstrip().rfind('"""')] if ends else line
            cut = body.rstrip().rfind(" ", 0, width + 1)
            if cut <= len(lead) + 10:
                break
            head, tail = body[:cut].rstrip(), body[cut:].strip()
            following = lines[at + 1] if at + 1 < len(lines) else ""
            if ends:
                lines[at : at + 1] = [head, lead + tail, indent + '"""']
            elif comment:
                if following.startswith(lead) and following.strip("# ") and not _DRAWN.search(following.strip("# ")):
                    lines[at : at + 2] = [head, lead + tail + " " + following[len(lead):]]
                else:
                    lines[at : at + 1] = [head, lead + tail]
            elif following.strip() and following.strip() != '"""' and re.match(r"\s*", following).group(0) == indent and not _DRAWN.search(following):  # type: ignore[union-attr]
                lines[at : at + 2] = [head, lead + tail + " " + following.strip()]
            else:
                lines[at : at + 1] = [head, lead + tail]
            text = "\n".join(lines) + "\n"
        path.write_text(text)

    return left


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worktree", type=Path)
    parser.add_argument("--table", type=Path, default=Path(__file__).with_name("glossary.tsv"))
    parser.add_argument("--kind", default="module,class,function,constant,method,attribute,parameter,test,plant,word,local")
    parser.add_argument("--check", action="store_true", help="only say what would be done")
    options = parser.parse_args()
    tree = Tree(options.worktree.resolve())
    rows = read_table(options.table)
    kinds = set(options.kind.split(","))
    if "module" in kinds and not options.check:
        rename_modules(tree, rows)
    renaming = Renaming(tree, rows, kinds, False)
    renaming.plan()
    renaming.rename_tops()
    renaming.rename_members()
    renaming.rename_parameters()
    renaming.rename_module_strings()
    renaming.rename_locals()
    for row in rows:
        if row.kind in ("test", "plant", "word", "local") or row.kind not in kinds:
            continue
    for line in renaming.problems:
        print("problem    ", line)
    for line in renaming.unresolved:
        print(line)
    if renaming.problems:
        print("nothing was written: mend the table first")
        for row in rows:
            if row.kind in kinds and row.kind not in ("test", "word") and row.state in ("not found", "taken"):
                print(f"{row.state:11} {row}")
        return 1
    if not options.check:
        renaming.write()
        Texts(tree, rows, kinds).apply(renaming.local_names)
        ruff = options.worktree.resolve() / ".venv/bin/ruff"
        for command in (["check", "--fix", "-q", "--select", "I", "."], ["format", "-q", "."]):
            subprocess.run([str(ruff), *command], cwd=options.worktree, check=True)
        fit_lines(tree)
        exact_lines(tree, options.table.with_name("glossary_lines.txt"))
        subprocess.run([str(ruff), "format", "-q", "."], cwd=options.worktree, check=True)
    states: dict[str, int] = defaultdict(int)
    for row in rows:
        if row.kind in kinds:
            states[row.state] += 1
            if row.state in ("not found", "taken"):
                print(f"{row.state:11} {row}")
    print(dict(states))
    return 1 if states["taken"] else 0


if __name__ == "__main__":
    sys.exit(main())
