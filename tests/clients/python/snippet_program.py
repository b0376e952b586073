"""Runs a snippet of the documentation as the program that it is, where warnings are errors.

[main] PATH ──▶ the snippet, as ``__main__``
"""

from __future__ import annotations

import runpy
import sys
import warnings

import mqservice_client  # noqa: F401  # imported once for all snippets


def main() -> None:
    warnings.simplefilter("error")
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
