"""The page of limits: ``docs/limits.md`` is this text, and a test keeps it so.

    limit_rows ──places──▶ modules of the code ──numbers──▶ [limits_page] ──▶ tables
    StoreConfig, settings.py ─────────────────────────────▶

Comments beside a field of the engine's configuration, which give its unit and reason, are shown.
"""

from __future__ import annotations

import ast
import importlib
import re
from datetime import timedelta
from operator import attrgetter
from typing import Any, Final

import msgspec

from mqservice.lib.settings_table import Setting
from storage_engine.config import StoreConfig
from storage_engine.settings.retry_policy import LevelDelays
from tests.docs.limit_rows import SECTIONS
from tests.docs.markdown import ROOT

FIRST_RETRY_MS: Final = LevelDelays().delay_ms(0)
_CONFIG: Final = ROOT / "storage_engine" / "config.py"
_SETTINGS: Final = ROOT / "mqservice" / "settings.py"
# Where things are, not how large.
_NOT_LIMITS: Final = frozenset(
    {
        "store_dir", "socket", "broker", "metrics_port", "metrics_bind", "listen", "shard",
        "secret", "secret_file", "replicated_log", "snapshot_url", "deployment", "control",
        "shard_epoch", "tls_cert_file", "tls_key_file",
    }
)  # fmt: skip
_HEAD: Final = """\
# Limits and defaults

<!-- Made by `python -m tests.docs`. Do not edit. -->

Every number here is read from the code that enforces it when this page is generated, and a test
compares the two. For what happens at a limit see [REST](rest.md), [WebSocket](websocket.md),
[quotas](rest.md#quotas) and [errors](errors.md).

Promises such as durability and order are in [concepts](concepts.md) and
[reliability](reliability.md).
"""
_SETTINGS_HEAD: Final = """\
## Settings of the service

Numbers that the operator can change with an environment variable. All others of the service are
fixed. `mqservice up` sets ports and `MQ_WEB_WORKERS` itself. [Operations](operations.md) and
`mqservice/settings.py` say what the variables mean.
"""
_ENGINE_HEAD: Final = """\
## Settings of the engine

Each is an environment variable, `MQ_ENGINE_` and the name in capitals. Pass bytes and milliseconds
as plain numbers.
"""
_UNITS: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_TIMES: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def limits_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, rows in SECTIONS.items():
        lines = [f"## {title}\n", "| what | limit | defined in |", "|---|---|---|"]
        for row in rows:
            numbers = [shown(_named(place), value_of(place)) for place in row.places]
            files = dict.fromkeys(_file_of(place) for place in row.places)
            named = ", ".join(f"`{name}`" for name in files if name)
            lines.append(f"| {row.what} | {row.text.format(*numbers)} | {named} |")
        parts.append("\n".join(lines) + "\n")
    parts += [_SETTINGS_HEAD, _settings_table(), _ENGINE_HEAD, _engine_table()]
    return "\n".join(parts)


def value_of(place: str) -> Any:  # Any: a number or a timedelta
    """What the code has at a place, see ``limit_rows``."""
    found, field = _owner_of(place)
    if not field:
        return found
    if isinstance(found, Setting):
        return attrgetter(field)(found)
    return {each.name: each.default for each in msgspec.structs.fields(found)}[field]


def _owner_of(place: str) -> tuple[Any, str]:
    """What stands there in the module, and which attribute of it is meant."""
    module, _, name = place.partition(":")
    owner, _, field = name.partition(".")
    return getattr(importlib.import_module(module), owner), field


def _named(place: str) -> str:
    """The place, or of a setting its column: that has the unit in its name."""
    owner, _field = _owner_of(place)
    return owner.key if isinstance(owner, Setting) else place


def shown(place: str, value: Any) -> str:  # Any: as above
    """A number with its unit, which the last words of its name say."""
    name = place.rpartition(":")[2].rpartition(".")[2].lower()
    if isinstance(value, timedelta):
        value, name = int(value.total_seconds() * 1_000), "life_ms"
    assert isinstance(value, int), place
    if re.search(r"_ms\b|_ms_", name):
        return _divided(value, _TIMES, "ms")
    if "bytes" in name:
        return _divided(value, _UNITS, "bytes")
    return f"{value:,}"


def _divided(value: int, units: tuple[tuple[int, str], ...], smallest: str) -> str:
    for size, unit in units:
        if value >= size and value % size == 0:
            return f"{value // size:,} {unit}"
    for size, unit in units:
        if value >= size and value * 100 % size == 0:
            return f"{value / size:,g} {unit}"
    return f"{value:,} {smallest}"


def _file_of(place: str) -> str:
    module = place.partition(":")[0]
    return "" if module.startswith("tests.") else module.replace(".", "/") + ".py"


def _settings_table() -> str:
    lines = ["| variable | default | from | to |", "|---|---|---|---|"]
    for node in ast.walk(ast.parse(_SETTINGS.read_text())):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", None) != "envint":
            continue
        name = ast.literal_eval(node.args[0])
        bounds = {each.arg: each.value for each in node.keywords}
        if name.endswith("_PORT"):  # a number, not an amount
            continue
        cells = [_number(node.args[1]), _number(bounds["minimum"]), _number(bounds["maximum"])]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join([*lines[:2], *sorted(lines[2:])]) + "\n"


def _number(node: ast.expr) -> str:
    """A product of numbers, or the smaller of a number and another variable."""
    if isinstance(node, ast.Name):
        return f"`{node.id}`"
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "min":
        return " or ".join(_number(each) for each in node.args) + ", whichever is smaller"
    return f"{_product(node):,}"


def _product(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp):
        assert isinstance(node.op, ast.Mult)
        return _product(node.left) * _product(node.right)
    return int(ast.literal_eval(node))


def _engine_table() -> str:
    comments, above = {}, ""
    for line in _CONFIG.read_text().splitlines():
        if found := re.match(r"    (\w+): int = [^#]+(?:# (.*))?$", line):
            comments[found[1]] = (above.strip() or found[2] or "").replace("|", "\\|")
        above = f"{above} {line[6:]}" if line.startswith("    # ") else ""
    lines = ["| name | default | meaning |", "|---|---|---|"]
    for each in msgspec.structs.fields(StoreConfig):
        if each.name in _NOT_LIMITS:
            continue
        place = f"storage_engine.config:StoreConfig.{each.name}"
        default, meaning = shown(place, each.default), comments[each.name]
        lines.append(f"| `{each.name}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"
