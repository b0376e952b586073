"""Settings of topics and groups as the fake checks and shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from ..errors import UsageError
from ..values import milliseconds
from .store import DAY_MS, Refusal

Check = Callable[[Any], str]  # Any: JSON; empty, or what is wrong
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
HOUR_MS: Final = 3_600_000


def whole(low: int, high: int) -> Check:
    def check(value: Any) -> str:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return "" if is_whole and low <= value <= high else f"must be {low} to {high}"

    return check


def duration(low_ms: int, high_ms: int) -> Check:
    def check(value: Any) -> str:
        try:
            ms = milliseconds(value)
        except UsageError:
            return "must be a duration such as 500ms, 30s, 12h or 7d"
        return "" if low_ms <= ms <= high_ms else f"must be {low_ms} to {high_ms} ms"

    return check


def one_of(*values: str) -> Check:
    return lambda value: "" if value in values else f"must be one of {', '.join(values)}"


def is_boolean(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def is_policy(value: Any) -> str:
    known = ("levels", "list", "exponential")
    is_known = isinstance(value, dict) and value.get("policy") in known
    return "" if is_known else f"must be an object whose policy is one of {', '.join(known)}"


def anything(value: Any) -> str:
    return ""


TOPIC_CHECKS: Final[dict[str, Check]] = {
    "type": one_of("mixed", "normal", "fifo", "delay"),
    "queues": whole(1, 256),
    "durability": one_of("sync", "async", "replicated"),
    "retention": duration(60_000, 30 * DAY_MS),
    "retention_ms": whole(60_000, 30 * DAY_MS),
    "body_bytes_max": whole(1_024, 4_194_304),
}
GROUP_CHECKS: Final[dict[str, Check]] = {
    "start_from": one_of("earliest", "latest", "timestamp"),
    "start_time": anything,
    "lease": duration(1_000, 12 * HOUR_MS),
    "lease_ms": whole(1_000, 12 * HOUR_MS),
    "consume_timeout": duration(10_000, 12 * HOUR_MS),
    "consume_timeout_ms": whole(10_000, 12 * HOUR_MS),
    "max_attempts": whole(1, 1_000),
    "retry": is_policy,
    "dispatch": one_of("shared", "exclusive", "broadcast"),
    "strategy": anything,
    "assignment": anything,
    "ordered": is_boolean,
    "batch_per_group": whole(1, 32),
}
TOPIC_DEFAULTS: Final[dict[str, Any]] = {
    "type": "mixed", "queues": 8, "durability": "sync", "retention_ms": 3 * DAY_MS,
    "body_bytes_max": 4_194_304,
}  # fmt: skip
GROUP_DEFAULTS: Final[dict[str, Any]] = {
    "start_from": "earliest", "start_time": None, "lease_ms": 60_000,
    "consume_timeout_ms": 3 * HOUR_MS, "max_attempts": 17, "retry": {"policy": "levels"},
    "dispatch": "shared", "strategy": "AVG", "assignment": {}, "ordered": False,
    "batch_per_group": 1,
}  # fmt: skip


def checked_name(kind: str, name: str) -> str:
    if NAME.fullmatch(name):
        return name
    raise Refusal(
        f"ILLEGAL_{kind}", f"a {kind.lower()} is 1 to 64 of a-z A-Z 0-9 _ -, found {name!r}"
    )


def changed(
    settings: Mapping[str, Any], change: Mapping[str, Any], checks: Mapping[str, Check]
) -> dict[str, Any]:
    """Settings with those of a request, in ms. Raises Refusal with every fault."""
    faults = [(f"/{name}", "is no setting") for name in change if name not in checks]
    result = dict(settings)
    for name, value in change.items():
        if name not in checks:
            continue
        if value is None:
            if name == "max_attempts":
                result[name] = None
            continue
        if wrong := checks[name](value):
            faults.append((f"/{name}", f"{wrong}, found {value!r}"))
        elif f"{name}_ms" in checks:
            result[f"{name}_ms"] = milliseconds(value)
        else:
            result[name] = _policy(value) if name == "retry" else value
    if faults:
        raise Refusal("BAD_REQUEST", "; ".join(" ".join(fault) for fault in faults), faults)
    return result


def shown(settings: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Settings as a response has them: durations as text too."""
    texts = {
        name: duration_text(settings[f"{name}_ms"]) for name in checks if f"{name}_ms" in checks
    }
    return {**settings, **texts}


def duration_text(ms: int) -> str:
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("m", 60_000), ("s", 1_000)):
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def time_text(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _policy(policy: dict[str, Any]) -> dict[str, Any]:
    """With every duration in ms too."""
    result = dict(policy)
    if result["policy"] == "list":
        given = result.pop("delays", None)
        result.setdefault("delays_ms", [milliseconds(each) for each in given or ["10s"]])
        result["delays"] = [duration_text(each) for each in result["delays_ms"]]
    elif result["policy"] == "exponential":
        for name, default in (("start", "5s"), ("cap", "2h")):
            result.setdefault(f"{name}_ms", milliseconds(result.get(name) or default))
            result[name] = duration_text(result[f"{name}_ms"])
    return result
