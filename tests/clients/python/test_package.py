"""The Python client as a package: how it is made, what is in it, and that it works elsewhere."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import mqservice_client
import pytest

from clients.generate import MADE, PACKAGE, SOURCE, made_modules
from tests.pythons import InstalledPython, installed_pythons

ROOT: Final = PACKAGE.parent
DEPENDENCIES: Final = {"httpx", "msgspec", "websockets"}
# Used where the program has it; nothing asks for it.
OPTIONAL: Final = {"django", "django_tasks", "opentelemetry"}
UV: Final = Path(sys.executable).with_name("uv")
VERSIONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")


def test_synchronous_modules_are_what_the_asynchronous_ones_make() -> None:
    made = made_modules()

    assert {path.name for path in MADE.glob("*.py")} == {path.name for path in made}
    for path, text in made.items():
        assert path.read_text() == text, f"{path}: run `python -m clients.generate`"


def test_every_name_of_the_asynchronous_side_has_its_twin() -> None:
    names = set(mqservice_client.__all__)
    sided = {name for name in names if name.startswith("Async")}

    assert sided
    assert {name.removeprefix("Async") for name in sided} <= names
    assert not any("Async" in path.read_text() for path in MADE.glob("*.py"))


def test_everything_public_is_importable_and_sorted() -> None:
    assert list(mqservice_client.__all__) == sorted(mqservice_client.__all__, key=str)
    for name in mqservice_client.__all__:
        assert hasattr(mqservice_client, name), name


def test_it_imports_its_three_dependencies_and_nothing_else() -> None:
    allowed = {*sys.stdlib_module_names, *DEPENDENCIES, *OPTIONAL, "mqservice_client"}
    for path in _modules():
        tree = ast.parse(path.read_text(), feature_version=(3, 10))
        found = {name.partition(".")[0] for node in ast.walk(tree) for name in _imported(node)}
        assert found <= allowed, f"{path}: {found - allowed}"


@pytest.mark.torture
def test_it_is_typed_for_the_oldest_python_that_it_promises(tmp_path: Path) -> None:
    """Types of that version know neither modules nor names that came later."""
    _run(
        sys.executable, "-m", "mypy", "--config-file=", "--strict", "--python-version", VERSIONS[0],
        "--explicit-package-bases", "--cache-dir", str(tmp_path), "-p", "mqservice_client",
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_has_every_module_the_protocol_and_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())

    wanted = {str(path.relative_to(ROOT)) for path in _modules()}
    assert "mqservice_client/protocol/frames.py" in wanted
    info = f"mqservice_client-{mqservice_client.__version__}.dist-info"
    assert names == wanted | {
        "mqservice_client/py.typed",
        *(f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")),
    }


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(python, id=python.version, marks=[pytest.mark.torture] if index else [])
        for index, python in enumerate(installed_pythons(VERSIONS))
    ],
)
def test_an_empty_environment_elsewhere_gets_the_client(
    wheel: Path, tmp_path: Path, python: InstalledPython
) -> None:
    environment = tmp_path / "environment"
    _run(str(python.path), "-m", "venv", "--without-pip", str(environment))
    program = str(environment / "bin" / "python")
    _run(str(UV), "pip", "install", "--quiet", "--python", program, str(wheel))
    code = "import mqservice_client as mq; print(mq.__file__, mq.Client('http://h', 'mqk_x'))"

    said = _run(program, "-c", code, folder=tmp_path)

    assert said.startswith(str(environment))


def _modules() -> list[Path]:
    """Those of ``protocol`` too, which are the service's own behind a link."""
    folders = (PACKAGE, SOURCE, MADE, PACKAGE / "protocol")
    found = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    apart = (path for name in ("django", "testing") for path in (PACKAGE / name).rglob("*.py"))
    return [*found, *sorted(apart)]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


def _run(*argv: str, folder: Path = ROOT) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
