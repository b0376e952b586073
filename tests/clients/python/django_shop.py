"""The project ``shop`` with each Django that has tasks, in processes of its own.

.cache/pythons/<hash of packages> ── uv, once ──▶ an environment without the service
Shop ─▶ python -c … │ manage.py mqservice_worker ─▶ the service
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.pythons import InstalledPython, installed_pythons, python_with

ROOT: Final = Path(__file__).resolve().parents[3]
HERE: Final = Path(__file__).resolve().parent
CLIENT_PACKAGES: Final = ("httpx<1", "websockets>=15", "msgspec>=0.20")
RUN_WAIT_S: Final = 60
_SETUP: Final = "import django, json; django.setup(); result = None\n"
_PRINT: Final = "\nprint(json.dumps(result, default=str))"


class Variant(NamedTuple):
    """A Django with tasks, and the oldest Python that it runs on."""

    packages: tuple[str, ...]
    python_min: tuple[int, int]


VARIANTS: Final = {
    "django-5.2-and-django-tasks": Variant(("django==5.2.*", "django-tasks>=0.12,<1"), (3, 10)),
    "django-6": Variant(("django==6.0.*",), (3, 12)),
}


def why_no_variant(name: str) -> str:
    """For people to read; empty where a Python is new enough for this Django."""
    if _pythons(VARIANTS[name]):
        return ""
    return f"{name} needs a newer Python than those that are here"


def python_of(name: str) -> Path:
    """Python of an environment with the packages of a variant."""
    variant = VARIANTS[name]
    return python_with(_pythons(variant)[0], *variant.packages, *CLIENT_PACKAGES)


def _pythons(variant: Variant) -> list[InstalledPython]:
    return [
        each
        for each in installed_pythons()
        if tuple(map(int, each.version.split("."))) >= variant.python_min
    ]


class Shop:
    """One project with a database of its own."""

    def __init__(
        self,
        python: Path,
        folder: Path,
        prefix: str,
        *,
        base_url: str,
        api_key: str,
        project: Path = HERE,
        tables: Path | None = None,
    ) -> None:
        """``project``: where the package ``shop`` is, with its settings. ``tables``: a database of
        the same project that has them.
        """
        self.prefix = prefix
        self.folder = folder
        self.database = folder / "shop.db"
        self._python = python
        self._notes = folder / "notes"
        self._stack = ExitStack()
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'clients' / 'python'}:{project}",
            "PYTHONWARNINGS": "error",
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "MQ_BASE_URL": base_url,
            "MQ_API_KEY": api_key,
            "SHOP_DATABASE": str(self.database),
            "SHOP_NOTES": str(self._notes),
            "SHOP_PREFIX": prefix,
        }
        if tables is None:
            self.manage("migrate", "--verbosity", "0")
        else:
            shutil.copyfile(tables, self.database)

    @property
    def notes(self) -> list[str]:
        """What tasks have left, in order."""
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    def run(self, code: str, **env: str) -> Any:
        """Run statements in the project; what they leave in ``result``, as JSON."""
        done = self._run("-c", _SETUP + code + _PRINT, env=env)
        return json.loads(done.splitlines()[-1])

    def manage(self, *args: str) -> str:
        return self._run("-m", "django", *args)

    def burst(self, *args: str) -> str:
        """Run what is waiting."""
        return self.manage("mqservice_worker", "--burst", *args)

    def start_worker(self, *args: str) -> subprocess.Popen[str]:
        """A worker that runs until it is told to stop, or the shop is closed."""
        process = subprocess.Popen(
            [str(self._python), "-m", "django", "mqservice_worker", *args],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._stack.callback(_end, process)
        return process

    def status(self, task_id: str) -> str:
        """Of a task, read from the database."""
        found: str = self.run(
            "from mqservice_client.django.models import TaskRecord\n"
            f"result = TaskRecord.objects.get(pk={task_id!r}).status"
        )
        return found

    def close(self) -> None:
        self._stack.close()

    def _run(self, *args: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [str(self._python), *args],
            env={**self.env, **(env or {})}, capture_output=True, text=True, check=False,
            timeout=RUN_WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()
