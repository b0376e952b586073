"""The meters of this process, for those who are not on its event loop: health and usage."""

from __future__ import annotations

from mqservice.quotas.meters import Meters

_meters: list[Meters] = []


def set_process_meters(meters: Meters | None) -> None:
    """Called once when the data plane begins, and with None when it ends."""
    _meters[:] = [] if meters is None else [meters]


def are_quotas_degraded() -> bool:
    """Whether this process keeps to an equal part of each limit, because Valkey is away."""
    return any(meters.is_degraded for meters in _meters)


def process_meters() -> Meters | None:
    """None in processes without a data plane."""
    return _meters[0] if _meters else None
