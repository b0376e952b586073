"""What a page of the console says, and how often it asks the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import Client

from mqservice.store import StoreClient


def text_of(client: Client, path: str) -> str:
    """The page with one blank for each run of them."""
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def why_not(text: str) -> dict[str, str]:
    """Actions that the user may not do, and why, of a page."""
    found = re.findall(
        r'<details class="menu why-not"><summary[^>]*>(?:<svg.*?</svg>)?([^<]*)</summary>'
        r"<p>([^<]*)</p>",
        text,
        re.DOTALL,
    )
    return dict(found)


def names(client: Client, path: str) -> list[str]:
    """Of the rows of a list, in order."""
    return re.findall(r'class="name" href="[^"]*" title="([^"]*)"', text_of(client, path))


@contextmanager
def round_trips(patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many requests went to the engine together, each time that it was asked."""
    real, found = StoreClient._exchange_all, list[int]()

    def count(client: StoreClient, requests: Any, *of_wait: int) -> Any:  # Any: as it has them
        found.append(len(requests))
        return real(client, requests, *of_wait)

    with patch.context() as patched:
        patched.setattr(StoreClient, "_exchange_all", count)
        yield found
