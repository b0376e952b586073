"""Addresses of pages by the names of their views.

A page has a hundred of them, and Django searches its patterns for each one. Remembered, they take a
tenth of the time. An address depends only on the name and the arguments: there is one URLconf.
"""

from __future__ import annotations

import functools
from typing import Final

from django.urls import reverse

_REMEMBERED_MAX: Final = 8_192


@functools.lru_cache(_REMEMBERED_MAX, typed=True)  # 1 and True have different addresses
def page_url(view: str, *args: object, **kwargs: object) -> str:
    """Raises NoReverseMatch."""
    return reverse(view, args=args, kwargs=kwargs)
