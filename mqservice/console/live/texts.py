"""The numbers of a page by their keys, formatted as the page shows them.

    in lag oldest dead …        of the namespace
    t:NAME:messages|rate|lag    of a topic
    g:NAME:lag|age|ready|inflight|retry|rate  of a group
    g:NAME:health|tone          of a group: the word, and how it is coloured

Templates use the same keys (``{% live %}``) and the same filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mqservice.console.shared.figures import Figures, GroupFigures, TopicFigures
from mqservice.console.templatetags.words import tone, word
from mqservice.lib.units import about, age, count, rate

_WHOLE: Final[dict[str, Callable[[Figures], str]]] = {
    "in": lambda figures: rate(figures.in_per_s),
    "out": lambda figures: rate(figures.out_per_s),
    "lag": lambda figures: count(figures.lag),
    "oldest": lambda figures: age(figures.oldest_ms),
    "readable": lambda figures: count(figures.readable),
}
_TOPIC: Final[dict[str, Callable[[TopicFigures], str]]] = {
    "messages": lambda topic: count(topic.readable),
    "rate": lambda topic: rate(topic.in_per_s),
    "lag": lambda topic: count(topic.lag),
}
_GROUP: Final[dict[str, Callable[[GroupFigures], str]]] = {
    "lag": lambda group: about(group.lag, is_estimated=group.is_estimated),
    "ready": lambda group: count(group.ready),
    "retry": lambda group: count(group.waiting_retry),
    "age": lambda group: age(group.lag_ms),
    "inflight": lambda group: count(group.inflight),
    "rate": lambda group: rate(group.out_per_s),
    "health": lambda group: word(group.health.value),
    "tone": lambda group: tone(group.health.value),
}


def texts_of(figures: Figures, keys: Iterable[str]) -> dict[str, str]:
    """What is known under ``keys``; keys of nothing are left out. In the active language."""
    found = {}
    for key in keys:
        text = _text_of(figures, key)
        if text is not None:
            found[key] = text
    return found


def _text_of(figures: Figures, key: str) -> str | None:
    if key in _WHOLE:
        return _WHOLE[key](figures)
    kind, _, rest = key.partition(":")
    name, _, what = rest.rpartition(":")
    if kind == "t" and name in figures.topics and what in _TOPIC:
        return _TOPIC[what](figures.topics[name])
    if kind == "g" and name in figures.groups and what in _GROUP:
        return _GROUP[what](figures.groups[name])
    return None
