"""The operator console: the state of the service's processes and its engine.

    superuser ──▶ [operator] ──▶ engine, disk, beat, dependencies   ?tab=workers: Celery as well
                       └──▶ ?tab=shards: all engines; ?shard=NAME: another one than the main one
    anybody else ──▶ 404, as for an address that there is not

Numbers that nobody tells are unknown. Asking Celery's workers takes a second, so it is a tab of its
own.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from mqservice.accounts.audit_search import installation_history
from mqservice.accounts.models import AuditEntry
from mqservice.accounts.queries import namespaces_of
from mqservice.console.audit.sentences import actor_of, sentence_of
from mqservice.console.audit.views import Change, changes_of
from mqservice.console.shared.frame import Crumb, frame_of, signed_in
from mqservice.lib.names import MAIN_SHARD
from mqservice.monitoring.background import (
    find_leader,
    find_workers,
    queue_lengths,
    queues_of,
    signs_of_life,
)
from mqservice.monitoring.engine_metrics import EngineMetrics, find_engine_metrics
from mqservice.monitoring.health import Health, PartState, check_health
from mqservice.monitoring.sampling import engine_stats
from mqservice.quotas.meters import process_meters
from mqservice.shards.models import Replica, Shard
from mqservice.shards.queries import is_alive, is_following, namespace_counts, replicas, shards
from mqservice.store import ObserveReply, StatsReply, StoreError, blocking_client

_STATS: Final = (
    "segment_count", "connection_count", "epoch", "append_offset", "flushed_offset", "sync_count",
    "put_count", "delivered_count", "scheduled_count", "parked_count",
)  # fmt: skip
_OBSERVED: Final = ("disk_total_bytes", "lost_message_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePage:
    """Each part None where the engine, or its metrics, do not answer."""

    shard: str
    is_main: bool
    stats: StatsReply | None
    observed: ObserveReply | None
    metrics: EngineMetrics | None
    health: Health
    valkey: PartState
    web_count: int | None

    @property
    def counts(self) -> dict[str, int | None]:
        """Numbers of the engine by their names; None while nobody tells them."""
        found: dict[str, int | None] = {}
        for source, names in ((self.stats, _STATS), (self.observed, _OBSERVED)):
            found |= {name: None if source is None else getattr(source, name) for name in names}
        return found

    @property
    def disk_used_bytes(self) -> int | None:
        if self.observed is None:
            return None
        return self.observed.disk_total_bytes - self.observed.disk_free_bytes

    @property
    def disk_percent(self) -> float | None:
        used = self.disk_used_bytes
        if used is None or self.observed is None or not self.observed.disk_total_bytes:
            return None
        return 100 * used / self.observed.disk_total_bytes

    @property
    def unsynced_bytes(self) -> int | None:
        return None if self.stats is None else self.stats.append_offset - self.stats.flushed_offset

    @property
    def unindexed_bytes(self) -> int | None:
        return None if self.stats is None else self.stats.append_offset - self.stats.indexed_offset

    @property
    def store_bytes(self) -> int | None:
        return None if self.metrics is None else self.metrics.whole("storage_size_bytes")

    @property
    def quarantined_count(self) -> int | None:
        return None if self.metrics is None else self.metrics.whole("quarantined_records")

    @property
    def repair_count(self) -> int | None:
        return None if self.metrics is None else self.metrics.whole("repairs_total")

    @property
    def sync_half_ms(self) -> float | None:
        return self._sync_ms(0.5)

    @property
    def sync_most_ms(self) -> float | None:
        return self._sync_ms(0.99)

    def _sync_ms(self, part: float) -> float | None:
        seconds = None if self.metrics is None else self.metrics.sync_s(part)
        return None if seconds is None else seconds * 1_000


@require_safe
@login_required
def operator(request: HttpRequest) -> HttpResponse:
    """``?tab=workers``, ``?tab=shards``, ``?shard=NAME``. Raises Http404 for who is no superuser,
    and for a shard that there is not.
    """
    user = signed_in(request)
    if not user.is_superuser:
        raise Http404
    namespaces = namespaces_of(user)
    frame = frame_of(request, user, namespaces, here="operator")
    tab = request.GET.get("tab", "")
    known = shards()
    shown: dict[str, object] = {
        "frame": frame,
        "namespace": None if frame is None else frame.namespace,
        "namespaces": namespaces,
        "crumbs": [Crumb(title=_("Operator"))],
        "is_operator": True,
        "tab": tab if tab in ("workers", "shards") else "engine",
        "has_shards": len(known) > 1 or known[0].epoch > 0,  # one shard may have replicas too
    }
    if tab == "workers":
        lengths = queue_lengths()
        # Celery would try for long to reach a broker that is away.
        workers = None if lengths is None else find_workers()
        shown |= {
            "workers": workers,
            "queues": queues_of(workers, lengths),
            "leader": find_leader(),
            "signs": signs_of_life(),
        }
    elif tab == "shards":
        shown |= {"shards": _shard_rows(known), "history": _history()}
    else:
        shard = request.GET.get("shard", MAIN_SHARD)
        if shard not in {each.name for each in known}:
            raise Http404
        shown["page"] = _engine_page(shard)
        shown["curl"] = f"curl -sS {shlex.quote(settings.MQ_BASE_URL + '/readyz')}"
    return render(request, "console/operator.html", shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRow:
    """``stats`` is None where the engine does not answer. ``put_per_s``: since its start.
    ``replicas``: each with whether it could take over.
    """

    shard: Shard
    replicas: list[tuple[Replica, bool]]
    namespace_count: int
    stats: StatsReply | None

    @property
    def written_bytes(self) -> int | None:
        return None if self.stats is None else self.stats.append_offset

    @property
    def put_per_s(self) -> float | None:
        if self.stats is None:
            return None
        return 1_000 * self.stats.put_count / max(self.stats.uptime_ms, 1)


def _shard_rows(known: list[Shard]) -> list[ShardRow]:
    """Two queries, and a call to each engine whose node is alive."""
    counts, following = namespace_counts(), replicas()
    return [
        ShardRow(
            shard=shard,
            replicas=[(each, is_following(each)) for each in following.get(shard.name, [])],
            namespace_count=counts.get(shard.name, 0),
            stats=engine_stats(shard.name) if is_alive(shard) else None,
        )
        for shard in known
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A change of a shard, as the audit log has it; ``sentence`` may be empty."""

    entry: AuditEntry
    sentence: str
    actor: str
    changes: list[Change]


def _history() -> list[HistoryRow]:
    """One query."""
    return [
        HistoryRow(
            entry=row,
            sentence=sentence_of(row, {}),
            actor=actor_of(row.actor, {}),
            changes=changes_of(row),
        )
        for row in installation_history()
    ]


def _engine_page(shard: str) -> EnginePage:
    """Two calls to the engine, a request for its metrics, a look at each dependency."""
    observed = None
    try:
        with blocking_client(shard) as client:
            observed = client.observe()
    except StoreError:
        pass
    meters = process_meters()
    is_main = shard == MAIN_SHARD
    port = (
        settings.MQ_ENGINE_METRICS_PORT
        if is_main
        else settings.MQ_SHARD_METRICS_PORTS.get(shard, 0)
    )
    return EnginePage(
        shard=shard,
        is_main=is_main,
        stats=engine_stats(shard),
        observed=observed,
        metrics=find_engine_metrics(port),
        health=check_health(),
        valkey=PartState.DOWN if queue_lengths() is None else PartState.UP,
        web_count=None if meters is None or meters.is_degraded else meters.process_count,
    )
