"""What a page of the console says."""

from __future__ import annotations

import re

from django.test import Client


def text_of(client: Client, path: str) -> str:
    """The page with one blank for each run of them."""
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def names(client: Client, path: str) -> list[str]:
    """Of the rows of a list, in order."""
    return re.findall(r'class="name" href="[^"]*" title="([^"]*)"', text_of(client, path))
