"""Writes the pages that are made of the code: ``python -m tests.docs``."""

from __future__ import annotations

import os

import django


def main() -> None:
    """Write them and print their paths."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from tests.docs.generated import MADE  # models can be imported only now

    for path, render in MADE.items():
        path.write_text(render())
        print(path)


if __name__ == "__main__":
    main()
