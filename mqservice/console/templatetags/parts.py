"""Pieces that pages are made of, where an include would need too much around it.

{% asset "console.css" %}  {% moment topic.created_at %}  {% icon "topics" %}  {% live "lag" 12 %}
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.template.loader import get_template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from mqservice.console.assets import version
from mqservice.console.shared.form_times import field_time
from mqservice.console.shared.time_zones import UTC_NAME, ZONE_FIELD, zone_name
from mqservice.lib.page_urls import page_url
from mqservice.lib.units import count

register = template.Library()

PLACES: Final = ("after", "before", "cursor", "page", "skip")  # parameters that name a page
VALUE_CHARS_MAX: Final = 200  # of a setting, before and after
TREND_HEIGHT: Final = 24
TREND_BARS_MAX: Final = 24  # more of them would be too thin

_SHOWN_CHARS: Final = {"m": 16, "s": 19, "ms": 23}  # of 2026-01-31 12:34:56.789+02:00


@register.simple_tag
def asset(name: str) -> str:
    """Address of a built file; it changes with the files, so that no cache mixes two versions."""
    return f"{static(f'build/{name}')}?v={version()}"


@register.inclusion_tag("parts/csv.html", takes_context=True)
def csv(context: template.Context, name: str) -> dict[str, object]:
    """At the beginning of a table: a link to it as a file, from its first page on; see
    ``table_csv``. ``name``: its own on the page.
    """
    request = context["request"]
    assert isinstance(request, HttpRequest)
    # With its path: a part that another page has put into itself is still of its own address.
    url = request.path + query(context, csv=name, **dict.fromkeys(PLACES, ""))
    return {"name": name, "url": url}


@register.simple_tag
@functools.cache  # the same files for as long as the process runs; pages have dozens of them
def icon(name: str) -> SafeString:
    """One of ``templates/icons``, which is only for the eye."""
    return SafeString(get_template(f"icons/{name}.svg").render().strip())


@register.simple_tag
def url(view: str, *args: object, **kwargs: object) -> str:
    """In place of Django's tag of this name, which looks up each address anew."""
    return page_url(view, *args, **kwargs)


@register.simple_tag
def moment(value: datetime | int | str | None, precision: str = "s") -> str | SafeString:
    """A time (epoch ms where it is a number, RFC 3339 where it is a text) in the zone of the page,
    with its distance from UTC; scripts show it without, in the same zone.

    ``precision``: m, s or ms.
    """
    if value is None:
        return _("unknown")
    if isinstance(value, int):
        value = datetime.fromtimestamp(value / 1000, tz=UTC)
    elif isinstance(value, str):
        value = datetime.fromisoformat(value)
    local = value.astimezone(timezone.get_current_timezone()).isoformat(" ", "milliseconds")
    utc = value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown, distance = local[: _SHOWN_CHARS[precision]], local[_SHOWN_CHARS["ms"] :][:6]
    zone = UTC_NAME if zone_name() == UTC_NAME else distance
    return SafeString(f'<time datetime="{utc}" data-precision="{precision}">{shown} {zone}</time>')


@register.simple_tag(takes_context=True)
def why_not(
    context: template.Context, text: str, icon_name: str = "", *, small: bool = False
) -> SafeString:
    """In place of an action that the user may not do: its name, which opens the reason. Works
    without scripts and without a mouse.
    """
    frame = context.get("frame")
    return format_html(
        '<details class="menu why-not"><summary class="button button-quiet{}" title="{}">{}{}'
        "</summary><p>{}</p></details>",
        " button-small" if small else "",
        reason := frame.why_not if frame else _("You are not allowed to do this."),
        icon(icon_name) if icon_name else "",
        text,
        reason,
    )


@register.filter
def in_field(text: str) -> str:
    """A time as ``<input type="datetime-local">`` has it, in the zone of the page."""
    return field_time(text)


@register.simple_tag
def zone_field() -> SafeString:
    """Says which zone the times of a form are in; each form with times has it."""
    return format_html('<input type="hidden" name="{}" value="{}">', ZONE_FIELD, zone_name())


@register.simple_tag
def setting_change(name: str, before: str, after: str) -> SafeString:
    """A setting that became different. No include: a page of the audit has hundreds of them."""
    was = SafeString()
    if before:
        was = format_html('<del>{}</del> <span aria-hidden="true">→</span> ', _shortened(before))
    if after:
        now = format_html("<ins>{}</ins>", _shortened(after))
    elif before:
        now = format_html('<span class="soft">{}</span>', _("removed"))
    else:
        now = SafeString('<span class="soft">–</span>')
    return format_html(
        '<div class="change"><span class="soft small">{}</span> {}{}</div>', name, was, now
    )


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else Truncator(text).chars(VALUE_CHARS_MAX)


@register.simple_tag
def live(key: str, value: object, text: str | None = None) -> SafeString:
    """A number that the page's socket keeps up to date under ``key``."""
    shown = text if text is not None else count(value if isinstance(value, int) else None)
    return format_html('<span data-live="{}">{}</span>', key, shown)


@register.simple_tag
def trend(values: Sequence[int | None], label: str) -> SafeString:
    """How a number came about: a line, or bars where there are few of them; gaps stay gaps."""
    known = [value for value in values if value is not None]
    scale = TREND_HEIGHT / max([*known, 1])
    if len(values) <= TREND_BARS_MAX:
        shape = SafeString("".join(
            f'<rect x="{at}.1" y="{TREND_HEIGHT - value * scale:.1f}" width="0.8"'
            f' height="{value * scale:.1f}"/>'
            for at, value in enumerate(values)
            if value
        ))  # fmt: skip
    else:
        steps, verb = [], "M"
        for at, value in enumerate(values):
            if value is not None:
                steps.append(f"{verb}{at} {TREND_HEIGHT - value * scale:.1f}")
            verb = "M" if value is None else "L"
        shape = SafeString(f'<path d="{"".join(steps)}"/>')
    said = [label, *(count(value) for value in (known[0], known[-1]))] if known else [label]
    return format_html(
        '<svg class="trend" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">{}</svg>',
        len(values), TREND_HEIGHT, " – ".join(said), shape,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: object) -> str:
    """The query of this page with ``changes``; what becomes empty is left out."""
    request = context["request"]
    assert isinstance(request, HttpRequest)
    found = {name: request.GET[name] for name in request.GET}
    for name, value in changes.items():
        found[name] = "" if value is None else str(value)
    kept = {name: value for name, value in found.items() if value}
    return "?" + urlencode(kept) if kept else request.path
