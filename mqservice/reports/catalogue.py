"""The existing reports, as ``analytics`` names them, with their descriptions and columns.

A row also has its ``date``. Columns are those of ``analytics/jobs``; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    title: str
    columns: tuple[str, ...]


def _report(name: str, title: str, columns: str) -> Report:
    return Report(name, title, tuple(columns.split()))


_STAGES: Final = " ".join(
    f"{stage}_ms_{figure}"
    for stage in ("store", "wait", "settle", "total")
    for figure in ("p50", "p95", "p99", "max")
)
REPORTS: Final = {
    report.name: report
    for report in (
        _report(
            "throughput_hourly",
            "Records and bytes of each topic and hour",
            "log_topic topic kind hour stored_count produced_count record_bytes body_bytes",
        ),
        _report(
            "usage_daily",
            "Every produced message once, by topic",
            "topic message_count body_bytes record_bytes stored_bytes",
        ),
        _report(
            "storage_growth_daily",
            "Bytes by topic and kind, and the day before",
            "topic kind record_count stored_bytes stored_bytes_before growth_ratio",
        ),
        _report(
            "retry_depth_daily",
            "How often messages were delivered again",
            "group topic depth message_count",
        ),
        _report(
            "dlq_daily",
            "Dead letters by group, topic and reason",
            "group topic reason message_count attempts_max age_ms_p50 age_ms_p95 age_ms_max "
            "redriven_count is_new_reason top_keys",
        ),
        _report(
            "key_skew_daily",
            "The most frequent message groups and keys",
            "topic key_kind rank key message_count share key_count queue_count fullest_queue_share",
        ),
        _report(
            "consumer_lag_hourly",
            "How far groups were behind in each hour",
            "group topic hour sample_count unknown_count lag_max lag_p95 lag_last lag_ms_max "
            "over_threshold_ms trend_per_s drain_s",
        ),
        _report(
            "delivery_latency_daily",
            "From born to settled, by group",
            f"group topic outcome message_count uncertain_ms_max {_STAGES}",
        ),
    )
}
