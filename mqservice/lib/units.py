"""Formats numbers with units for people: the only place where units are chosen."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from mqservice.lib.durations import format_duration_ms

register = template.Library()

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@register.filter
def duration(ms: int | None) -> str:
    """3600000 -> ``1h``; None, which means unknown, -> ``unknown``."""
    return _("unknown") if ms is None else format_duration_ms(ms)


@register.filter
def uptime(ms: int | None) -> str:
    """Two largest units: ``2d 3h``, ``4m 10s``."""
    if ms is None:
        return _("unknown")
    seconds = ms // 1000
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


@register.filter
def count(number: int | None) -> str:
    """1234567 -> ``1,234,567``; unknown is shown as unknown, never as 0."""
    return _("unknown") if number is None else f"{number:,}"


@register.filter
def about(number: int | None, is_estimated: bool = False) -> str:
    """The same as ``count``; ``≈ 1,234`` where a sample stands for all."""
    return f"≈ {count(number)}" if number is not None and is_estimated else count(number)


@register.filter
def size(number: int | None) -> str:
    """Bytes with a binary unit: ``4 MiB``."""
    if number is None:
        return _("unknown")
    value = float(number)
    for unit in _BYTE_UNITS:
        if value < 1024 or unit == _BYTE_UNITS[-1]:
            text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
            return f"{text} {unit}"
        value /= 1024
    raise AssertionError("the loop ends at the last unit")


@register.filter
def rate(per_second: float | None) -> str:
    """Messages per second: ``0/s``, ``0.4/s``, ``1,234/s``."""
    if per_second is None:
        return _("unknown")
    if per_second == 0 or per_second >= 10:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.1 else f"{per_second:.2f}/s"


@register.filter
def age(ms: int | None) -> str:
    """Of something that waits: ``0s``, ``4m 10s``."""
    return uptime(ms)


@register.filter
def unlocalized(number: float) -> str:
    """As SVG wants it."""
    return f"{number:.2f}"
