"""Translations of the pages: collected, compiled, checked.

    templates, console/*.py ── xgettext ──▶ django.po ── people ──▶ msgfmt ──▶ django.mo

``python -m mqservice.console.translations`` collects new texts and compiles; both files are
committed, and a test compares them without gettext. Strings are found by ``makemessages`` of
Django.
"""

from __future__ import annotations

import gettext
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from mqservice.lib.frontend import FRONTEND_DIR

LOCALE: Final = FRONTEND_DIR / "locale"
LANGUAGES: Final = ("zh_Hans",)
_QUOTED: Final = re.compile(r'"(.*)"')
_ESCAPES: Final = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


def entries(language: str) -> dict[str, list[str]]:
    """Of the ``.po``: the translations of each text, more than one where it has a plural."""
    source = (LOCALE / language / "LC_MESSAGES" / "django.po").read_text()
    found = {}
    for block in source.split("\n\n"):
        lines = "\n".join(line for line in block.splitlines() if not line.startswith("#"))
        parts = re.split(r"^(msgid_plural|msgid|msgstr(?:\[\d\])?) ", lines, flags=re.M)[1:]
        words = [
            (word, "".join(_unescaped(text) for text in _QUOTED.findall(body)))
            for word, body in zip(parts[::2], parts[1::2], strict=True)
        ]
        ids = [text for word, text in words if word == "msgid"]
        if ids and ids[0]:
            found[ids[0]] = [text for word, text in words if word.startswith("msgstr")]
    return found


def compiled(language: str) -> gettext.GNUTranslations:
    """The ``.mo`` that pages use."""
    with (LOCALE / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def main() -> int:
    """Collect and compile. Needs gettext."""
    environment = {"MQ_SECRET_KEY": "only-to-collect-texts-0123456789-0123", **os.environ}
    environment.setdefault("DATABASE_URL", "postgresql://nobody@127.0.0.1/none")
    environment.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    environment["PYTHONPATH"] = str(FRONTEND_DIR.parent)
    arguments = [
        "--no-location",
        "--no-wrap",
        "--no-obsolete",
        "--ignore=node_modules",
        "--ignore=tests",
    ]
    for language in LANGUAGES:
        arguments += ["-l", language]
    program = [sys.executable, "-m", "django"]
    subprocess.run(
        [*program, "makemessages", *arguments], cwd=_sources(), env=environment, check=True
    )
    for language in LANGUAGES:
        folder = LOCALE / language / "LC_MESSAGES"
        made = [
            "msgfmt",
            "--check-format",
            "-o",
            str(folder / "django.mo"),
            str(folder / "django.po"),
        ]
        subprocess.run(made, check=True)
    return 0


def _sources() -> Path:
    return FRONTEND_DIR.parent


def _unescaped(text: str) -> str:
    return re.sub(r'\\[n"\\]', lambda match: _ESCAPES[match[0]], text)


if __name__ == "__main__":
    sys.exit(main())
