"""Addresses of pages by the names of their views.

A page has a hundred of them, and Django tries patterns for each anew: remembered, they take a tenth
of the time. They depend on nothing but names and arguments: there is one URLconf.
"""

from __future__ import annotations

import functools
from typing import Final

from django.urls import reverse

_REMEMBERED_MAX: Final = 8_192


@functools.lru_cache(_REMEMBERED_MAX)
def page_url(view: str, *args: object, **kwargs: object) -> str:
    """Raises NoReverseMatch."""
    return reverse(view, args=args, kwargs=kwargs)
