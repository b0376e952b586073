"""Rules about the code itself: who imports whom, what every file has, what no file has."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("mqservice", "storage_engine", "analytics", "bench", "clients")
MAY_SKIP = "tests/storage_engine/faults/machine.py"  # says what a machine lacks for real faults
FUNCTION_LINES_MAX = 70
# Longer, with what a cut would cost.
LONG_LOOPS = {
    "storage_engine/records/record_run.py:decode_records": "every consumed message passes here: "
    "cut in two, it takes 1.3 to 2.2 times as long for messages that differ",
}
LOCKS = (
    "requirements.lock",
    "requirements-analytics.lock",
    "requirements-dev.lock",
    "requirements-bootstrap.lock",
    "requirements-docs.lock",
)


def _sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert found, folders
    return [path for path in found if "migrations" not in path.parts]


def _names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other(package: str) -> None:
    """Imports under TYPE_CHECKING count: modules that know each other's types are one module."""
    paths = {_dotted(path): path for path in _sources(package)}
    imported = {name: _imported(path, set(paths)) - {name} for name, path in paths.items()}

    # What imports nothing that is left goes, until only circles and what imports them are left.
    while done := [name for name, others in imported.items() if not others & imported.keys()]:
        for name in done:
            del imported[name]

    assert {name: sorted(others & imported.keys()) for name, others in imported.items()} == {}


def test_engine_starts_without_anything_of_the_service() -> None:
    code = (
        "import sys, storage_engine.__main__\n"
        "wanted = {'django', 'celery', 'channels', 'redis', 'psycopg', 'mqservice'}\n"
        "print(sorted(wanted & {name.partition('.')[0] for name in sys.modules}))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_no_function_of_the_product_is_longer_than_70_lines() -> None:
    """Docstrings are not counted: they explain, and cost nobody who reads the code."""
    lengths = {
        f"{path.relative_to(ROOT)}:{node.name}": _line_count(node)
        for path in _sources("mqservice", "storage_engine", "analytics", "clients")
        for node in _statements(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    too_long = {name: count for name, count in lengths.items() if count > FUNCTION_LINES_MAX}
    assert too_long.keys() == LONG_LOOPS.keys(), too_long


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All below a node; without a look into expressions, of which there are ten times as many."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(child)


def _line_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    count = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is None:
        return count
    docstring = node.body[0]
    assert docstring.end_lineno is not None
    return count - (docstring.end_lineno - docstring.lineno + 1)


def test_engine_asks_only_its_clock_for_the_time() -> None:
    asking = [
        path
        for path in _sources("storage_engine")
        if path.name != "clock.py" and _calls_time(ast.parse(path.read_text()))
    ]

    assert _names(asking) == []


def test_tests_do_not_sleep_and_are_not_skipped() -> None:
    banned = {"sleep": "time", "skip": "pytest", "skipif": "mark", "xfail": "mark"}
    found = []
    for path in _sources("tests"):
        if str(path.relative_to(ROOT)) == MAY_SKIP:
            continue
        text = path.read_text()
        if not any(f"{module}.{name}" in text for name, module in banned.items()):
            continue  # most of them: to parse them all takes seconds
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Attribute) or node.attr not in banned:
                continue
            if banned[node.attr] == _last_name(node.value):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert found == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_every_file_and_names_no_registry(lock: str) -> None:
    text = (ROOT / lock).read_text()

    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pins = [line for line in lines if not line.startswith("    ")]
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert all("--hash=sha256:" in line for line in lines if line.startswith("    "))
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_each_lock_contains_the_one_before_it() -> None:
    run, analytics, test = (
        {
            line.split()[0]
            for line in (ROOT / name).read_text().splitlines()
            if "==" in line and not line.startswith("#")
        }
        for name in LOCKS[:3]
    )

    assert run <= analytics <= test


def test_no_committed_text_names_a_path_or_host_of_one_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    words = ["/".join(("", "work", "")), "artifact" + "ory", "/".join(("", "root", ""))]
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{name}: {word}" for word in words if word in text]

    assert found == []


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, modules: set[str]) -> set[str]:
    """Which of the modules are imported anywhere in it, in functions too."""
    found = set()
    for node in _statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = ".".join(filter(None, [_package_above(path, node.level), node.module]))
            for alias in node.names:
                full = f"{source}.{alias.name}"
                found.add(full if full in modules else source)
    return found & modules


def _package_above(path: Path, level: int) -> str:
    """What the dots of ``from ..x import y`` stand for."""
    return ".".join(path.relative_to(ROOT).parts[:-level]) if level else ""


def _calls_time(tree: ast.Module) -> bool:
    """Whether the module imports ``time`` in any form, or asks ``datetime`` for now."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "time" for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"):
            return True
    return False


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return None
