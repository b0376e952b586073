"""Alert rules as alerting rules of Prometheus, in YAML.

    rules ──▶ [rules_file] ──▶ groups: … ──▶ promtool, Prometheus
    expressions ──▶ sampling.metrics (GET …/metrics), the engine's own /metrics for the disk

What differs from an alert of ours is said in comments. No text of a tenant is in the file but
names, which have no sign that YAML or PromQL would read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mqservice.alerts.models import AlertRule
from mqservice.alerts.settings import AlertKind
from mqservice.lib.durations import SECOND_MS, format_duration_ms
from mqservice.lib.timestamps import rfc3339
from mqservice.sampling.metrics import (
    GROUP_AGE,
    GROUP_DEAD_LETTERS,
    GROUP_LAG,
    GROUP_MEMBERS,
    GROUP_TOPIC_AGE,
    GROUP_TOPIC_LAG,
    NAMESPACE_LABEL,
)

RULES_TYPE: Final = "application/yaml"
ENGINE_DISK_TOTAL: Final = "mq_engine_disk_total_bytes"
ENGINE_DISK_FREE: Final = "mq_engine_disk_free_bytes"
KIND_LABEL: Final = "mq_kind"

_HEAD: Final = """\
# Alerts of the namespace {namespace} as alerting rules of Prometheus.
#
# Their metrics are those of GET /v1/ns/{namespace}/metrics, asked for with an API key.
# What is other than in mqservice:
# * What nobody knows, while the storage engine is away for example, is not told; that ends an alert
#   in Prometheus, and changes nothing in mqservice.
# * Who is told is a matter of Alertmanager: e-mails, webhooks and mutes are not in here.
groups:
  - name: {group}
"""
_OFF: Final = "is off, and not in here."
_ISSUE: Final = "tells of issues, of which there is no metric."
_MUTED: Final = "Muted until {until} in mqservice; here that is a silence of Alertmanager."
_DISK: Final = (
    "Of the storage engine's own /metrics, which its operator has; without them it never fires."
)
_VALUE: Final = '{{ printf "%.0f" $value }}'  # by itself a million is written 1e+06
_GROWTH: Final = "Once Prometheus has asked for longer than the window."


def rules_file(namespace: str, rules: Sequence[AlertRule]) -> str:
    """All rules, those that are off as comments."""
    lines = [_HEAD.format(namespace=namespace, group=_quoted(f"mqservice/{namespace}"))]
    if not any(rule.is_enabled and rule.kind != AlertKind.ISSUE for rule in rules):
        lines.append("    rules: []\n")
    else:
        lines.append("    rules:\n")
    for rule in rules:
        if rule.kind == AlertKind.ISSUE:
            lines.append(f"      # {rule.name} {_ISSUE}\n")
        elif rule.is_enabled:
            lines += (f"      {line}\n" for line in _rule(namespace, rule))
        else:
            lines.append(f"      # {rule.name} {_OFF}\n")
    return "".join(lines)


def expression(namespace: str, rule: AlertRule) -> str:
    """PromQL that has a result while the rule is breached."""
    own = f'{{{NAMESPACE_LABEL}="{namespace}",group="{rule.group_name}"}}'
    on_topic = f'{own[:-1]},topic="{rule.topic}"}}'
    match AlertKind(rule.kind):
        case AlertKind.LAG:
            metric = f"{GROUP_TOPIC_LAG}{on_topic}" if rule.topic else f"{GROUP_LAG}{own}"
            return f"{metric} >= {rule.threshold}"
        case AlertKind.OLDEST_AGE:
            metric = f"{GROUP_TOPIC_AGE}{on_topic}" if rule.topic else f"{GROUP_AGE}{own}"
            return f"{metric} >= {_seconds(rule.threshold)}"
        case AlertKind.DLQ_GROWTH:
            metric = f"{GROUP_DEAD_LETTERS}{own}"
            window = format_duration_ms(rule.window_ms)
            # Not increase(), which guesses what lies between two looks and gives fractions.
            return f"{metric} - {metric} offset {window} >= {rule.threshold}"
        case AlertKind.NO_CONSUMER:
            return f"{GROUP_MEMBERS}{own} == 0"
        case AlertKind.DISK:
            return f"100 * (1 - {ENGINE_DISK_FREE} / {ENGINE_DISK_TOTAL}) >= {rule.threshold}"
        case AlertKind.ISSUE:
            raise ValueError(f"{rule.name} is for issues, of which there is no metric")


def _rule(namespace: str, rule: AlertRule) -> Iterator[str]:
    kind = AlertKind(rule.kind)
    if rule.muted_until_ms:
        yield f"# {_MUTED.format(until=rfc3339(rule.muted_until_ms))}"
    if kind is AlertKind.DISK:
        yield f"# {_DISK}"
    if kind is AlertKind.DLQ_GROWTH:
        yield f"# {_GROWTH}"
    yield f"- alert: {_quoted(rule.name)}"
    yield f"  expr: {_quoted(expression(namespace, rule))}"
    if rule.for_ms:
        yield f"  for: {format_duration_ms(rule.for_ms)}"
    yield "  labels:"
    yield f"    {NAMESPACE_LABEL}: {_quoted(namespace)}"
    yield f"    {KIND_LABEL}: {kind.value}"
    yield "  annotations:"
    yield f"    summary: {_quoted(_summary(rule))}"


def _summary(rule: AlertRule) -> str:
    whose = f"{rule.group_name} on {rule.topic}" if rule.topic else rule.group_name
    match AlertKind(rule.kind):
        case AlertKind.LAG:
            return f"{whose} has {_VALUE} messages to settle"
        case AlertKind.OLDEST_AGE:
            return f"the oldest message of {whose} waits for {_VALUE} s"
        case AlertKind.DLQ_GROWTH:
            within = format_duration_ms(rule.window_ms)
            return f"{whose} gave up {_VALUE} messages within {within}"
        case AlertKind.NO_CONSUMER:
            return f"nobody reads for {whose}"
        case AlertKind.DISK:
            return f"{_VALUE} % of the disk under the store are used"
        case AlertKind.ISSUE:
            return "issues are open"


def _seconds(ms: int) -> str:
    """Exact, whatever the number of digits."""
    whole, rest = divmod(ms, SECOND_MS)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def _quoted(text: str) -> str:
    """A scalar of YAML in which no sign means anything."""
    return "'" + text.replace("'", "''") + "'"
