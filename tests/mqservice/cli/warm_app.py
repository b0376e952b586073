"""``app``, the command line, with all that a command imports.

Half of that it imports late, when it reads its options and connects.
"""

from __future__ import annotations

from typer.testing import CliRunner

from mqservice.cli.main import app

__all__ = ["app"]

_nobody = {"MQ_BASE_URL": "http://127.0.0.1:1", "MQ_API_KEY": "none"}
_ended = CliRunner().invoke(app, ["topic", "list"], env=_nobody)
if "cannot reach" not in _ended.output:
    raise RuntimeError(f"it was to get as far as connecting, and said: {_ended.output}")
