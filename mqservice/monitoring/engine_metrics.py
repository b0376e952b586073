"""The engine's Prometheus metrics, read for a page: numbers by name, and the duration of syncs.

GET 127.0.0.1:PORT/metrics ──▶ text ──▶ [EngineMetrics]
"""

from __future__ import annotations

import http.client
import math
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S: Final = 1.0
TEXT_BYTES_MAX: Final = 256 * 1024
_PREFIX: Final = "mq_engine_"
_OF_ANY_ENGINE: Final = frozenset({"shard"})  # labels that each sample may have


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """``values`` by their names without the prefix; ``sync_buckets``: (bound in s, syncs at or
    below it), ascending, the last bound infinite.
    """

    values: dict[str, float]
    sync_buckets: list[tuple[float, float]]

    def whole(self, name: str) -> int | None:
        """A number by its name; None where the engine does not tell it."""
        value = self.values.get(name)
        return None if value is None else int(value)

    def sync_s(self, part: float) -> float | None:
        """A bound that ``part`` of all syncs kept to; None without one, or above all bounds."""
        total = self.sync_buckets[-1][1] if self.sync_buckets else 0
        for bound, count in self.sync_buckets:
            if total and count >= part * total:
                return bound if math.isfinite(bound) else None
        return None


def find_engine_metrics(port: int) -> EngineMetrics | None:
    """None when nobody answers there, or ``port`` is 0. One request on the loopback address."""
    if not port:
        return None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read(TEXT_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return parse_metrics(text.decode("utf-8", "replace")) if answer.status == 200 else None


def parse_metrics(text: str) -> EngineMetrics | None:
    """None for what is not the engine's text."""
    values: dict[str, float] = {}
    buckets: list[tuple[float, float]] = []
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix(_PREFIX)
                if name == "sync_seconds_bucket":
                    buckets.append((float(sample.labels["le"]), sample.value))
                elif sample.labels.keys() <= _OF_ANY_ENGINE:
                    values[name] = sample.value
    except (ValueError, KeyError):
        return None
    return EngineMetrics(values=values, sync_buckets=buckets)
